"""What is told of a batch of rewarded replies: metrics at weight 0, columns of the completions table, lines
of the log.

Knows rewards and executions; nothing of trainers or files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from train.reward_rows import RewardRow
from train.reward_runs import Ran
from train.reward_scoring import Mode, Rewards, faults, is_guess, is_right
from videopro.execution import NO_PROGRAM
from videopro.program import Program
from videopro.trace import Execution, Failure

ERRORS = (
    *(NO_PROGRAM, "SyntaxError", "NameError", "TypeError", "ArgumentError", "NotFoundError"),
    *("UnavailableError", "limit", "other"),
)
"""Classes of failures that are told apart; each is told at each step, so that means over steps and processes
are right. The log and the table have the error's own name."""

_SAME = {"IndentationError": "SyntaxError", "TabError": "SyntaxError", "UnboundLocalError": "NameError"}
_LIMITS = ("MemoryError", "TooLarge")


@dataclass(frozen=True)
class Scored:
    """A reply, what came of its program, and what it earns."""

    row: RewardRow
    reply: str
    tokens: int
    """That the planner wrote."""
    program: Program
    ran: Ran
    rewards: Rewards

    @property
    def mode(self) -> Mode | None:
        """How the program reasons; None where there is none."""
        return self.program.mode if self.program.code.strip() else None


def error_class(error: Failure) -> str:
    """One of ERRORS."""
    name = _SAME.get(error.type, error.type)
    if name.endswith("Limit") or name in _LIMITS:
        return "limit"
    return name if name in ERRORS else "other"


def measures(scored: Sequence[Scored]) -> dict[str, float]:
    """Figures of a batch. Shares and means are over replies whose programs could be tried, `left_out` and
    `planner_tokens` over all; `confidence` over those that answered. What is over nothing is left away."""
    tried = [(one, one.ran.execution) for one in scored if one.ran.execution is not None]
    found = {
        "left_out": 1 - len(tried) / len(scored),
        "planner_tokens": sum(one.tokens for one in scored) / len(scored),
    }
    if tried:
        executions = [execution for _, execution in tried]
        failed = Counter(error_class(one.error) for one in executions if one.error is not None)
        for status in ("ok", "empty", "failed"):
            found[status] = _mean([one.status == status for one in executions])
        found |= {f"failed/{name}": failed[name] / len(tried) for name in ERRORS}
        found["guess"] = _mean([is_guess(one) for one in executions])
        found["native_share"] = _mean([one.mode == "native" for one, _ in tried])
        found["module_calls"] = _mean([len(one.calls) for one in executions])
        found["frames"] = _mean([_frames(one) for one in executions])
        answered = [one.confidence for one in executions if one.answer is not None]
        if answered:
            found["confidence"] = _mean(answered)
    return {f"programs/{name}": value for name, value in found.items()}


def record(scored: Scored) -> dict[str, Any]:
    """One reply as a line of the log has it."""
    row, execution = scored.row, scored.ran.execution
    told: dict[str, Any] = {
        "id": row.id,
        "kind": row.kind,
        "reply": scored.reply,
        "mode": scored.mode,
        "oracle_mode": row.oracle,
        "status": "left_out",
        "error": None if scored.ran.error is None else type(scored.ran.error).__name__,
        "answer": None,
        "gold": row.answer,
        "confidence": None,
        "correct": None,
        "faults": list(scored.program.reasons),
        "rewards": asdict(scored.rewards),
        "module_calls": 0,
        "frames": 0,
        "tokens": scored.tokens,
    }
    if execution is not None:
        told |= {
            "status": execution.status,
            "error": execution.error.type if execution.error is not None else None,
            "answer": execution.answer,
            "confidence": execution.confidence,
            "correct": is_right(execution, row.answer),
            "faults": list(faults(scored.program, execution)),
            "module_calls": len(execution.calls),
            "frames": _frames(execution),
        }
    return told


COLUMNS = ("id", "kind", "mode", "oracle_mode", "status", "error", "answer", "gold", "confidence")
"""What of a record the table of completions gets, beside TRL's own columns."""


def _frames(execution: Execution) -> int:
    """Frames that its calls looked at, remembered ones among them: what the program asks for, not what
    happened to be new."""
    return sum(len(call.frames) for call in execution.calls)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
