"""Adaptive program reasoning with self-refinement (sections 3.4 and 3.5), running one program, and the
methods made of them."""

from videopro.methods.program.adapting import paper_backbone
from videopro.methods.program.deciding import REASONED, REASONED_HELP, OtherVideos
from videopro.methods.program.execution import INPUTS, NO_PROGRAM, answer_natively, execute, run_parallel
from videopro.methods.program.guarding import error_of_look
from videopro.methods.program.needs import program_needs
from videopro.methods.program.reasoner import Reasoner, ReasoningSettings, ReasoningTask
from videopro.methods.program.refinement import (
    Refinement,
    build_refinement,
    refinement_kind,
    refinement_prompt,
    shown_answer,
)
from videopro.methods.program.rounds import (
    cost_of_rounds,
    derive_seed,
    native_round,
    prompt_seed,
    round_from_reply,
)

__all__ = [
    "INPUTS",
    "NO_PROGRAM",
    "OtherVideos",
    "REASONED",
    "REASONED_HELP",
    "Reasoner",
    "ReasoningSettings",
    "ReasoningTask",
    "Refinement",
    "answer_natively",
    "build_refinement",
    "cost_of_rounds",
    "derive_seed",
    "error_of_look",
    "execute",
    "native_round",
    "paper_backbone",
    "program_needs",
    "prompt_seed",
    "refinement_kind",
    "refinement_prompt",
    "round_from_reply",
    "run_parallel",
    "shown_answer",
]
