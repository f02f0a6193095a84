"""Reports on a batch of rewarded replies: metrics, columns of the completions table, lines of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from videopro.methods.program import NO_PROGRAM
from videopro.traces import Execution, Failure
from videopro.train.rewards.rows import EVALUATION, RewardRow
from videopro.train.rewards.runs import TurnOutcome
from videopro.train.rewards.scoring import Rewards, format_faults, is_guess, is_right

ERRORS = (
    *(NO_PROGRAM, "SyntaxError", "NameError", "TypeError", "ArgumentError", "NotFoundError"),
    *("UnavailableError", "limit", "other"),
)
"""Classes of failures in the metrics. All are reported at every step, so that means over steps and processes
are right. The log and the table have the error's own name."""

# Python raises them as kinds of the same mistake.
_SAME = {"IndentationError": "SyntaxError", "TabError": "SyntaxError", "UnboundLocalError": "NameError"}
_LIMITS = ("MemoryError", "TooLarge")


@dataclass(frozen=True)
class RewardedRollout:
    """A rollout and its rewards."""

    row: RewardRow
    turns: tuple[TurnOutcome, ...]
    """The reply to the row's prompt and, in a two-turn episode, the reply to the refinement prompt."""
    tokens: int
    """Tokens that the planner wrote."""
    rewards: Rewards

    @property
    def tried(self) -> list[tuple[TurnOutcome, Execution]]:
        """The turns with their executions; empty if any of them could not be run."""
        executed = [
            (turn, turn.outcome.execution) for turn in self.turns if turn.outcome.execution is not None
        ]
        # An episode of which a turn could not run gets no reward, so no turn of it counts.
        return executed if len(executed) == len(self.turns) else []


def error_class(error: Failure) -> str:
    """One of ERRORS."""
    name = _SAME.get(error.type, error.type)
    if name.endswith("Limit") or name in _LIMITS:
        return "limit"
    return name if name in ERRORS else "other"


def batch_metrics(scored: Sequence[RewardedRollout]) -> dict[str, float]:
    """Metrics of a batch. Shares and means are over rollouts whose programs ran, `left_out` and
    `planner_tokens` over all, `confidence` over those that answered. A mean over nothing is omitted.

    They describe first replies, except `module_calls` and `frames`, which cover every turn. `refined` is the
    share of rollouts with a second turn, and `first_right` the accuracy of first turns.
    """
    tried = [rollout.tried for rollout in scored if rollout.tried]
    metrics = {
        "left_out": 1 - len(tried) / len(scored),
        "planner_tokens": sum(rollout.tokens for rollout in scored) / len(scored),
    }
    if tried:
        executions = [turns[0][1] for turns in tried]
        failed = Counter(error_class(run.error) for run in executions if run.error is not None)
        for status in ("ok", "empty", "failed"):
            metrics[status] = _mean([execution.status == status for execution in executions])
        # Each class at each step, also those that nobody met: a mean over steps needs the zeros.
        metrics |= {f"failed/{name}": failed[name] / len(tried) for name in ERRORS}
        metrics["guess"] = _mean([is_guess(execution) for execution in executions])
        metrics["native_share"] = _mean([turns[0][0].mode == "native" for turns in tried])
        every = [[execution for _, execution in turns] for turns in tried]
        metrics["module_calls"] = _mean([sum(len(execution.calls) for execution in turns) for turns in every])
        metrics["frames"] = _mean([sum(map(_frames, turns)) for turns in every])
        answered = [run.answer.confidence for run in executions if run.answer.letter is not None]
        if answered:
            metrics["confidence"] = _mean(answered)
        metrics["refined"] = _mean([len(turns) > 1 for turns in tried])
        right = [rollout.row.right for rollout in scored if rollout.tried]
        metrics["first_right"] = _mean([is_right(*pair) for pair in zip(executions, right, strict=True)])
    return {f"programs/{name}": value for name, value in metrics.items()}


def log_line(scored: RewardedRollout) -> dict[str, Any]:
    """A rollout as a line of the log: its first reply, and under `refined` the second, if any."""
    # The first reply is the policy's plan, and what runs of one turn have: their columns stay comparable.
    row, (first, *later_turns) = scored.row, scored.turns
    return {
        "id": row.id,
        "kind": row.kind,
        "oracle_mode": row.oracle_mode,
        "gold": row.answer,
        "tokens": scored.tokens,
        "rewards": asdict(scored.rewards),
        **_turn(first, row),
        "refined": _turn(later_turns[-1], row) if later_turns else None,
    }


def _turn(turn: TurnOutcome, row: RewardRow) -> dict[str, Any]:
    execution = turn.outcome.execution
    fields: dict[str, Any] = {
        "reply": turn.reply,
        "mode": turn.mode,
        "status": "left_out",
        "error": None if turn.outcome.error is None else type(turn.outcome.error).__name__,
        "answer": None,
        "confidence": None,
        "correct": None,
        "faults": list(turn.program.faults),
        "module_calls": 0,
        "frames": 0,
    }
    if execution is not None:
        fields |= {
            "status": execution.status,
            "error": execution.error.type if execution.error is not None else None,
            "answer": execution.answer.letter,
            "confidence": execution.answer.confidence,
            "correct": is_right(execution, row.right),
            "faults": list(format_faults(turn.program, execution)),
            "module_calls": len(execution.calls),
            "frames": _frames(execution),
        }
    return fields


COLUMNS = (
    *(EVALUATION, "id", "kind", "mode", "oracle_mode", "status", "error", "answer", "gold", "confidence"),
)
"""The fields of a log line that the completions table shows in addition to TRL's columns."""


def _frames(execution: Execution) -> int:
    """The number of frames that a program's calls looked at, cached calls included."""
    return sum(len(call.frames) for call in execution.calls)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
