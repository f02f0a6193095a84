"""Adaptive program reasoning with self-refinement (sections 3.4 and 3.5), and running one program."""

from videopro.reasoning.execution import INPUTS, NO_PROGRAM, answer_natively, execute
from videopro.reasoning.observer import Observer
from videopro.reasoning.reasoner import (
    Reasoner,
    ReasoningResult,
    ReasoningSettings,
    ReasoningTask,
    RefinementShows,
    build_refinement,
)

__all__ = [
    "INPUTS",
    "NO_PROGRAM",
    "ReasoningSettings",
    "ReasoningResult",
    "Reasoner",
    "RefinementShows",
    "ReasoningTask",
    "Observer",
    "answer_natively",
    "execute",
    "build_refinement",
]
