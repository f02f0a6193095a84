"""The kinds of prompts for a planner, as a round of a trace names them."""

from __future__ import annotations

from typing import Literal, get_args

PromptKind = Literal["plan", "plan_program", "bug_fix", "native_refinement", "program_refinement"]
"""What a prompt asks for: a program in a mode that the planner chooses, a program of several steps, or a
refinement of a program that failed or whose answer is unsure (in native mode, or after several steps)."""

PLAN_KINDS: tuple[PromptKind, ...] = ("plan", "plan_program")
REFINEMENT_KINDS: tuple[PromptKind, ...] = ("bug_fix", "native_refinement", "program_refinement")

ReferenceForm = Literal["none", "signatures", "compact", "full"]
"""What a prompt says of the modules that are there: nothing, their signatures, a line for each with what it
does and returns, or all that their documentation says."""
REFERENCE_FORMS: tuple[ReferenceForm, ...] = get_args(ReferenceForm)
