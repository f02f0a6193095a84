"""GRPO's rewards for programs (Eq. 3): accuracy, format and mode consistency, from executions of inference's
own executor and modules.

    with ProgramRewards(backbone, modules=ModuleModels(settings, pocket=False), log=path) as rewards:
        args = GRPOConfig(reward_weights=rewards.weights, ...)
        GRPOTrainer(model, reward_funcs=rewards.functions, args=args, ...).train()

A program's failure is an outcome; a fault of ours, or a backbone that serves nobody, stops the run with its
cause. Knows rows, executions and TRL's form of a reward function; nothing of models or how they are trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopro.backbones.base import Backbone
from videopro.errors import ConfigError
from videopro.executor import Limits
from videopro.modules.loading import ModuleModels
from videopro.storage import JsonLinesLog
from videopro.traces import FinalRule
from videopro.train.rewards.report import COLUMNS, RewardedRollout, batch_metrics, log_line
from videopro.train.rewards.rows import RewardRow, rows_of_batch, texts_of
from videopro.train.rewards.runs import ProgramOutcome, ProgramRunner, TurnOutcome
from videopro.train.rewards.scoring import ANSWER, LEFT_OUT, WEIGHTS, score

RewardFunction = Callable[..., list[float | None]]


class ProgramRewards:
    """Reward functions that share one execution of each program.

    `functions` are to be given to TRL together with `weights`, in this order. The first one runs what is not
    running yet, waits, logs and reports metrics; the others read what it found. Rows without a readable video
    get None from all of them, which TRL leaves out of their group.

    What is called from several processes is one object a process. As a context manager it closes itself.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        modules: ModuleModels,
        log: Path | None = None,
        workers: int = 8,
        limits: Limits | None = None,
        accuracy: str = ANSWER,
        final: FinalRule = "last",
    ) -> None:
        """`backbone` answers inside the modules, with any adapter off (DESIGN.md, who answers): the model in
        training, a frozen copy of its base, or a server. `modules`: the models behind the modules. `log`:
        gets a line a reply. `workers`: programs that run side by side. `limits` None: those of inference.
        `accuracy`: what that reward pays for, one of ACCURACIES. `final`: which answer of an episode of two
        turns counts."""
        if workers < 1:
            raise ConfigError(f"workers is {workers}; it must be at least 1")
        self._runs = ProgramRunner(
            backbone,
            modules,
            workers=workers,
            limits=limits if limits is not None else Limits(),
        )
        self._accuracy = accuracy
        self._final: FinalRule = final
        self._log = JsonLinesLog(log, make_folder=True) if log is not None else None
        self._latest: tuple[Any, list[RewardedRollout]] | None = None
        self.functions: list[RewardFunction] = [self.accuracy, self.format, self.mode_consistency]
        self.weights = [WEIGHTS[function.__name__] for function in self.functions]

    @property
    def left_out(self) -> Mapping[str, str]:
        """Why rows were left out, by video or row."""
        return self._runs.left_out

    @property
    def executions(self) -> int:
        """Programs that were run so far."""
        return self._runs.begun

    # ---- what a trainer may do ahead -----------------------------------------------------------------------

    def prepare(self, rows: Sequence[RewardRow]) -> None:
        """Have the videos of rows opened and indexed meanwhile; returns at once."""
        for row in {(row.video, row.subtitles): row for row in rows}.values():
            self._runs.prepare(row)

    def submit(self, row: RewardRow, reply: str) -> Future[ProgramOutcome]:
        """Begin to run the program of a reply meanwhile; the reward functions take it from there."""
        return self._runs.submit(row, reply)

    def run(self, rows: Sequence[RewardRow], replies: Sequence[str]) -> list[TurnOutcome]:
        """What came of the program of each reply, run by now; for turns before the last of a rollout, whose
        prompts rest on it. Raises as the reward functions do."""
        return self._runs.run(rows, replies)

    def close(self) -> None:
        """End what runs, and close the log. Calling it twice is fine."""
        self._runs.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> ProgramRewards:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- TRL's reward functions ----------------------------------------------------------------------------

    def accuracy(
        self, prompts: Any, completions: Any, completion_ids: Any, **columns: Any
    ) -> list[float | None]:
        """1 where the program's answer is right and came from an answering call, or what that call gave the
        right letter (`reward_scoring.worth`); else 0, whatever it did."""
        return [one.rewards.accuracy for one in self._scored(completions, completion_ids, columns)]

    def format(
        self, prompts: Any, completions: Any, completion_ids: Any, **columns: Any
    ) -> list[float | None]:
        """1 for a reply of the right form; see `reward_scoring.faults`."""
        return [one.rewards.format for one in self._scored(completions, completion_ids, columns)]

    def mode_consistency(
        self, prompts: Any, completions: Any, completion_ids: Any, **columns: Any
    ) -> list[float | None]:
        """1 for a well-formed reply in the mode that its prompt wants (A.3), 0 for another; None where it
        wants none, see `reward_scoring.wanted_mode`."""
        return [one.rewards.mode_consistency for one in self._scored(completions, completion_ids, columns)]

    def _scored(
        self, completions: Any, completion_ids: Any, columns: Mapping[str, Any]
    ) -> list[RewardedRollout]:
        """The batch with its rewards; TRL gives the same object to each function in turn."""
        replies = [texts_of(one) for one in completions]
        if self._latest is not None and self._latest[0] is completions:
            latest = self._latest[1]
            if [[turn.reply for turn in one.turns] for one in latest] == replies:
                return latest
        began, before = time.perf_counter(), self._runs.begun
        rows = rows_of_batch(columns, len(replies))
        written = [(row, one) for row, turns in zip(rows, replies, strict=True) for one in turns]
        ran = iter(self._runs.run([row for row, _ in written], [one for _, one in written]))
        waited = {
            "programs/wait_seconds": time.perf_counter() - began,
            # Replies whose program nobody had asked for before; without those that were begun ahead.
            "programs/begun": (self._runs.begun - before) / len(replies),
        }
        scored = [
            self._score(row, tuple(next(ran) for _ in turns), len(ids))
            for row, turns, ids in zip(rows, replies, completion_ids, strict=True)
        ]
        self._report(scored, waited, **columns)
        self._latest = completions, scored
        return scored

    def _score(self, row: RewardRow, turns: tuple[TurnOutcome, ...], tokens: int) -> RewardedRollout:
        left_out = RewardedRollout(row, turns, tokens, LEFT_OUT)
        attempts = [(turn.program, execution) for turn, execution in left_out.tried]
        if not attempts:
            return left_out
        rewards = score(
            row.kind, row.right, row.oracle_mode, *attempts, accuracy=self._accuracy, final=self._final
        )
        return replace(left_out, rewards=rewards)

    def _report(
        self,
        scored: Sequence[RewardedRollout],
        waited: Mapping[str, float],
        *,
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **_: Any,
    ) -> None:
        records = [log_line(one) for one in scored]
        if self._log is not None:
            step = None if trainer_state is None else trainer_state.global_step
            self._log.append(*({"step": step, **one} for one in records))
        if log_metric is not None:
            for name, value in {**batch_metrics(scored), **waited}.items():
                log_metric(name, value)
        if log_extra is not None:
            for name in COLUMNS:
                log_extra(name, [one[name] for one in records])
