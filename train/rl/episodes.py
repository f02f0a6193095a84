"""Episodes of two turns: which first replies are refined, and with which prompt.

Trigger and prompts are those of inference (`videopro.methods.program.rounds`, section 3.5): a program
that failed, gave no answer, or gave one below tau is refined once. Only a plan begins an episode: the other
kinds of prompts are refinements themselves, and inference refines once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from videopro.methods.planners import PromptFile
from videopro.methods.program import build_refinement
from videopro.modules import named_modules, reference_text
from videopro.modules.calls import ClipTimes
from videopro.traces import PLAN_KINDS, REFINEMENT_KINDS, is_confident
from videopro.train.rewards import TurnOutcome
from videopro.train.rl.data import GRPORow


class RunsPrograms(Protocol):
    """Runs programs, such as `videopro.train.rewards.functions.ProgramRewards`."""

    def run(self, rows: Sequence[GRPORow], replies: Sequence[str]) -> list[TurnOutcome]: ...


class RefinementTurns:
    """Chooses the prompt that follows a first reply. Runs the programs in the replies and waits for them."""

    def __init__(
        self,
        runs: RunsPrograms,
        tau: float,
        prompt_file: PromptFile | None = None,
        *,
        clip_times: ClipTimes = "video",
    ) -> None:
        """`prompt_file`: the user's prompts in place of ours. `clip_times`: as the modules have it. Raises
        ConfigError if it lacks a refinement."""
        if prompt_file is not None:
            prompt_file.require(REFINEMENT_KINDS, "an episode of two turns")
        self._runs = runs
        self._tau = tau
        self._prompt_file = prompt_file
        self._clip_times: ClipTimes = clip_times

    def __call__(self, rows: Sequence[GRPORow], replies: Sequence[str]) -> list[GRPORow | None]:
        """For each reply, the row of its refinement; None if it needs none or could not be run. Raises the
        same errors as the reward functions."""
        refinements: list[GRPORow | None] = [None] * len(rows)
        plans = [index for index, row in enumerate(rows) if row.kind in PLAN_KINDS]
        turns = self._runs.run([rows[index] for index in plans], [replies[index] for index in plans])
        for index, turn in zip(plans, turns, strict=True):
            execution = turn.outcome.execution
            if execution is None or is_confident(execution, self._tau):
                continue
            row = rows[index]
            if self._prompt_file is not None and row.reference == "none":
                self._prompt_file.require_api("an episode of two turns about a row without a reference")
            kind, prompt = build_refinement(
                row.question,
                turn.program,
                execution,
                turn.outcome.log,
                reference=reference_text(row.reference, named_modules(row.modules), self._clip_times),
                file=self._prompt_file,
            )
            # As in inference: without a system turn, and with the video first.
            refinements[index] = replace(row, kind=kind, prompt=prompt, system=None, before="")
        return refinements
