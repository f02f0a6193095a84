"""GRPO's rewards for programs (Eq. 3): accuracy, format and mode consistency, from executions of inference's
own executor and modules.

    with ProgramRewards(backbone, modules=ModuleModels(settings), log=path) as rewards:
        args = GRPOConfig(reward_weights=rewards.weights, ...)
        GRPOTrainer(model, reward_funcs=rewards.functions, args=args, ...).train()

A program's failure is an outcome, whatever its requests made the video, a model or a library raise: it earns
what a wrong answer earns. A row is left out only for what shows without a program. An error of the machine,
or a backbone that serves no request, stops the run with its cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone
from videopro.modules import ModuleModels
from videopro.storage import JsonLinesLog
from videopro.traces import FinalRule
from videopro.train.rewards.report import COLUMNS, RewardedRollout, batch_metrics, log_line
from videopro.train.rewards.rows import EVALUATION, POLICY_VERSION, TURNS, RewardRow, rows_of_batch, texts_of
from videopro.train.rewards.runs import ProgramRunner, TurnOutcome
from videopro.train.rewards.scoring import ANSWER, EQUATION, LEFT_OUT, WEIGHTS, score

RewardFunction = Callable[..., list[float | None]]


class ProgramRewards(ProgramRunner):
    """Reward functions that share one execution of each program.

    Pass `functions` and `weights` to TRL in the same order. The first function runs the programs that are not
    running yet, waits, logs and reports metrics; the others reuse its results. Rows that fail
    without a program too, such as those without a readable video, get None from all of them, and TRL leaves
    them out of their group.

    Each process has its own object. Can be used as a context manager, which closes it. What a trainer may
    start early is the runner's: `prepare`, `submit` and `run`.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        modules: ModuleModels,
        log: Path | None = None,
        accuracy: str = ANSWER,
        final: FinalRule = "last",
        form: str = EQUATION,
        **running: Any,
    ) -> None:
        """`log`: a JSON-lines file that gets one line per rollout. `accuracy`: one of ACCURACIES. `final`:
        which answer of a two-turn episode counts. `form`: one of FORMS. `backbone`, `modules` and `running`:
        see `ProgramRunner`. Raises ConfigError for an invalid number of workers."""
        super().__init__(backbone, modules, **running)
        self._rules: dict[str, Any] = {"accuracy": accuracy, "final": final, "form": form}
        self._log = JsonLinesLog(log, make_folder=True) if log is not None else None
        self._latest: tuple[Any, list[RewardedRollout]] | None = None
        self.functions: list[RewardFunction] = [self._function(name) for name in WEIGHTS]
        self.weights = list(WEIGHTS.values())

    def close(self) -> None:
        """Stop running programs and close the log. Calling it twice is fine."""
        super().close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> ProgramRewards:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _function(self, name: str) -> RewardFunction:
        """TRL's function for a part of `Rewards`."""

        def reward(prompts: Any, completions: Any, completion_ids: Any, **columns: Any) -> list[float | None]:
            scored = self._scored(completions, completion_ids, columns)
            return [getattr(rollout.rewards, name) for rollout in scored]

        # By which TRL names its metrics and the columns of its tables.
        reward.__name__ = name
        return reward

    def _scored(
        self, completions: Any, completion_ids: Any, columns: Mapping[str, Any]
    ) -> list[RewardedRollout]:
        """The batch with its rewards; TRL gives the same object to each function in turn."""
        # Plain TRL knows rollouts of one turn.
        replies = columns.get(TURNS) or [texts_of(completion) for completion in completions]
        # The same object is no proof of the same batch, so the replies are compared too.
        if self._latest is not None and self._latest[0] is completions:
            latest = self._latest[1]
            if [[turn.reply for turn in rollout.turns] for rollout in latest] == replies:
                return latest
        began, before = time.perf_counter(), self.late
        rows = rows_of_batch(columns, len(replies))
        written = [(row, text) for row, turns in zip(rows, replies, strict=True) for text in turns]
        ran = iter(self.run([row for row, _ in written], [text for _, text in written]))
        waited = {
            "programs/wait_seconds": time.perf_counter() - began,
            # Programs that started only now, as a share of replies.
            "programs/begun": (self.late - before) / len(replies),
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
        rewards = score(row.kind, row.right, row.oracle_mode, *attempts, **self._rules)
        return replace(left_out, rewards=rewards)

    def _report(
        self,
        scored: Sequence[RewardedRollout],
        waited: Mapping[str, float],
        *,
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> None:
        versions = columns.get(POLICY_VERSION) or [None] * len(scored)
        evaluation = columns.get(EVALUATION) or [False] * len(scored)
        records = [
            {EVALUATION: evaluates, POLICY_VERSION: version, **log_line(rollout)}
            for evaluates, version, rollout in zip(evaluation, versions, scored, strict=True)
        ]
        if self._log is not None:
            step = None if trainer_state is None else trainer_state.global_step
            self._log.append(*({"step": step, **record} for record in records))
        if log_metric is not None:
            for name, value in {**batch_metrics(scored), **waited}.items():
                log_metric(name, value)
        if log_extra is not None:
            for name in COLUMNS:
                log_extra(name, [record[name] for record in records])
