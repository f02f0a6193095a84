"""Processes and their ends: signals, stopping from within, memory handed back to the system."""

from videopro.processes.freed_memory import hand_back
from videopro.processes.signals import signal_name
from videopro.processes.stopping import held_back, left_to_the_parent, stoppable

__all__ = ["hand_back", "held_back", "left_to_the_parent", "signal_name", "stoppable"]
