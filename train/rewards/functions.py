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
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone
from videopro.errors import ConfigError
from videopro.executor import Limits
from videopro.methods.program import REASONED
from videopro.modules import ModuleModels
from videopro.storage import JsonLinesLog
from videopro.traces import FinalRule, ReasonedRule
from videopro.train.rewards.report import COLUMNS, RewardedRollout, batch_metrics, log_line
from videopro.train.rewards.rows import EVALUATION, POLICY_VERSION, TURNS, RewardRow, rows_of_batch, texts_of
from videopro.train.rewards.runs import ProgramOutcome, ProgramRunner, TurnOutcome
from videopro.train.rewards.scoring import ANSWER, EQUATION, LEFT_OUT, WEIGHTS, score

RewardFunction = Callable[..., list[float | None]]


class ProgramRewards:
    """Reward functions that share one execution of each program.

    Pass `functions` and `weights` to TRL in the same order. The first function runs the programs that are not
    running yet, waits, logs and reports metrics; the others reuse its results. Rows that fail
    without a program too, such as those without a readable video, get None from all of them, and TRL leaves
    them out of their group.

    Each process has its own object. Can be used as a context manager, which closes it.
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
        form: str = EQUATION,
        reasoned: ReasonedRule = REASONED,
        nearest_intact: float = 0.0,
    ) -> None:
        """`backbone` answers the modules' questions, with any adapter off (the base model answers, not the
        policy that writes programs): the model in training, a frozen copy of its base, or a server.
        `modules`: the models behind the modules. `log`: a JSON-lines file that gets one line per rollout.
        `workers`: programs run in parallel. `limits`: None for those of inference. `accuracy`: one of
        ACCURACIES. `final`: which answer of a two-turn episode counts. `form`: one of FORMS. `reasoned`:
        what makes the confidence of a letter that comes straight from no call. `nearest_intact`: as of
        `Video.open`. Raises ConfigError for an invalid `workers`."""
        if workers < 1:
            raise ConfigError(f"workers is {workers}; it must be at least 1")
        self._runs = ProgramRunner(
            backbone,
            modules,
            workers=workers,
            limits=limits if limits is not None else Limits(),
            reasoned=reasoned,
            nearest_intact=nearest_intact,
        )
        self._form = form
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
        """The number of programs run so far."""
        return self._runs.begun

    # ---- what a trainer may start early --------------------------------------------------------------------

    def prepare(self, rows: Sequence[RewardRow]) -> None:
        """Open and index the videos of rows in the background; returns at once."""
        for row in {
            (row.video, row.subtitles, row.subtitle_track, row.without): row for row in rows
        }.values():
            self._runs.prepare(row)

    def submit(self, row: RewardRow, reply: str) -> Future[ProgramOutcome]:
        """Start the program of a reply in the background; the reward functions pick up its result."""
        return self._runs.submit(row, reply)

    def run(self, rows: Sequence[RewardRow], replies: Sequence[str]) -> list[TurnOutcome]:
        """Run the program of each reply and wait; for turns that may be followed by a refinement. Raises the
        same errors as the reward functions."""
        return self._runs.run(rows, replies)

    def close(self) -> None:
        """Stop running programs and close the log. Calling it twice is fine."""
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
        """1 where the program's answer is right and calls gave or decided it, or what the call gave the right
        letter (`videopro.train.rewards.scoring.accuracy_reward`); else 0."""
        return [rollout.rewards.accuracy for rollout in self._scored(completions, completion_ids, columns)]

    def format(
        self, prompts: Any, completions: Any, completion_ids: Any, **columns: Any
    ) -> list[float | None]:
        """1 for a well-formed reply, else 0; see `format_faults`."""
        return [rollout.rewards.format for rollout in self._scored(completions, completion_ids, columns)]

    def mode_consistency(
        self, prompts: Any, completions: Any, completion_ids: Any, **columns: Any
    ) -> list[float | None]:
        """1 for a reply in the wanted mode (A.3), else 0; None if the prompt has no wanted mode
        (see `wanted_mode`)."""
        return [
            rollout.rewards.mode_consistency for rollout in self._scored(completions, completion_ids, columns)
        ]

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
        began, before = time.perf_counter(), self._runs.late
        rows = rows_of_batch(columns, len(replies))
        written = [(row, text) for row, turns in zip(rows, replies, strict=True) for text in turns]
        ran = iter(self._runs.run([row for row, _ in written], [text for _, text in written]))
        waited = {
            "programs/wait_seconds": time.perf_counter() - began,
            # Programs that started only now, as a share of replies.
            "programs/begun": (self._runs.late - before) / len(replies),
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
            row.kind,
            row.right,
            row.oracle_mode,
            *attempts,
            accuracy=self._accuracy,
            final=self._final,
            form=self._form,
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
