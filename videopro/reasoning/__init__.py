"""Adaptive program reasoning with self-refinement (sections 3.4 and 3.5), and running one program."""

from videopro.reasoning.execution import INPUTS, NO_PROGRAM, answer_natively, execute
from videopro.reasoning.observer import Watcher
from videopro.reasoning.reasoner import Reasoned, Reasoner, ReasonSettings, Shows, Task, refinement

__all__ = [
    "INPUTS",
    "NO_PROGRAM",
    "ReasonSettings",
    "Reasoned",
    "Reasoner",
    "Shows",
    "Task",
    "Watcher",
    "answer_natively",
    "execute",
    "refinement",
]
