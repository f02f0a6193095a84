"""The kinds of prompts for a planner, as a round of a trace names them."""

from __future__ import annotations

from typing import Literal

PromptKind = Literal["plan", "plan_program", "bug_fix", "native_refinement", "program_refinement"]
"""What a prompt asks for: a program in a mode that the planner chooses, a program of several steps, or a
refinement of a program that failed or whose answer is unsure (in native mode, or after several steps)."""

PLAN_KINDS: tuple[PromptKind, ...] = ("plan", "plan_program")
REFINEMENT_KINDS: tuple[PromptKind, ...] = ("bug_fix", "native_refinement", "program_refinement")
