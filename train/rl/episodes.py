"""Episodes of two turns: which first replies inference would have refined, and by which prompt.

Trigger and prompts are those of inference (`videopro.reasoning.reasoner`, section 3.5): a program that
failed, gave no answer, or gave one below tau is asked for again, once. Only a plan begins an episode: the
other kinds of prompts are refinements themselves, and inference refines once. Knows rows, executions and
prompts; must not know trainers, models or tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from videopro.planners import PLAN_KINDS
from videopro.program import parse_program
from videopro.reasoning import build_refinement
from videopro.traces import is_confident
from videopro.train.rewards.rows import read_row
from videopro.train.rewards.runs import ProgramOutcome

DatasetRow = Mapping[str, Any]


class RunsPrograms(Protocol):
    """What runs programs, such as `videopro.train.rewards.functions.ProgramRewards`."""

    def run(self, rows: Sequence[DatasetRow], replies: Sequence[str]) -> list[ProgramOutcome]: ...


class RefinementTurns:
    """Says what is asked after a first reply. Runs the programs of these replies, and waits for them."""

    def __init__(self, runs: RunsPrograms, tau: float) -> None:
        self._runs = runs
        self._tau = tau

    def __call__(self, rows: Sequence[DatasetRow], replies: Sequence[str]) -> list[DatasetRow | None]:
        """For each reply the row of its refinement, or None where it needs none, or cannot be tried. Raises
        as the reward functions do."""
        asked: list[DatasetRow | None] = [None] * len(rows)
        plans = [place for place, row in enumerate(rows) if row["kind"] in PLAN_KINDS]
        ran = self._runs.run([rows[place] for place in plans], [replies[place] for place in plans])
        for place, one in zip(plans, ran, strict=True):
            if one.execution is None or is_confident(one.execution, self._tau):
                continue
            row = rows[place]
            kind, prompt = build_refinement(
                read_row(row).question, parse_program(replies[place]), one.execution, one.log
            )
            asked[place] = {**row, "kind": kind, "prompt": [{"role": "user", "content": prompt}]}
        return asked
