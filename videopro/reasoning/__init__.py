"""Adaptive program reasoning with self-refinement (sections 3.4 and 3.5), and running one program."""

from videopro.reasoning.execution import INPUTS, NO_PROGRAM, answer_natively, execute, run_parallel
from videopro.reasoning.guarding import error_of_look
from videopro.reasoning.reasoner import Reasoner, ReasoningSettings, ReasoningTask
from videopro.reasoning.refinement import (
    Refinement,
    RefinementShows,
    build_refinement,
    refinement_kind,
    refinement_prompt,
    shown_answer,
)
from videopro.reasoning.rounds import Observer, cost_of_rounds, derive_seed, prompt_seed, round_from_reply

__all__ = [
    "INPUTS",
    "NO_PROGRAM",
    "ReasoningSettings",
    "Reasoner",
    "Refinement",
    "RefinementShows",
    "ReasoningTask",
    "Observer",
    "answer_natively",
    "build_refinement",
    "cost_of_rounds",
    "derive_seed",
    "error_of_look",
    "execute",
    "prompt_seed",
    "refinement_kind",
    "refinement_prompt",
    "round_from_reply",
    "run_parallel",
    "shown_answer",
]
