"""Process utilities: signal names, orderly termination, returning freed memory to the system."""

from videopro.processes.freed_memory import trim_heap
from videopro.processes.signals import signal_name
from videopro.processes.stopping import defer_signals, handle_termination, leave_signals_to_parent

__all__ = ["trim_heap", "defer_signals", "leave_signals_to_parent", "signal_name", "handle_termination"]
