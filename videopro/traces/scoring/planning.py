"""Planning metrics: well-formed replies, programs that run, and the chosen mode against the oracle mode.

Pure functions, for evaluations during training and for finished runs alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from videopro.question import right_letters
from videopro.traces.record import Execution, Result, Trace
from videopro.traces.scoring.verdicts import INPUT_ERRORS
from videopro.traces.selection import is_confident

Mode = Literal["native", "program"]


@dataclass(frozen=True)
class PlanRecord:
    """The outcome of the planner's first reply to a question, and of the answer that counts."""

    id: str
    raw: str
    well_formed: bool
    mode: Mode | None
    oracle: Mode | None
    status: str
    """Of the execution: ok, failed or empty; "" if there is none."""
    letter: str | None
    correct: bool
    error: str | None
    """Why the question has no answer, such as an unreadable video."""
    error_type: str | None = None
    """The class of that error."""

    @property
    def is_left_out(self) -> bool:
        """Whether an error shows without a program (INPUT_ERRORS), so that only `errors` counts it. Every
        other one may be the planner's doing."""
        return self.error_type in INPUT_ERRORS


def oracle_mode(native: Execution, right: Collection[str], tau: float) -> Mode:
    """m* of A.3: native if the native answer is confident and one of the `right` letters."""
    return "native" if is_confident(native, tau) and native.answer.letter in right else "program"


def oracle_modes(native: Iterable[Trace], tau: float) -> dict[str, Mode]:
    """The oracle mode of each question that a run of method `native` answered. Questions that have no known
    answer or could not be asked have none."""
    modes: dict[str, Mode] = {}
    for trace in native:
        if trace.error is None and trace.gold is not None and trace.rounds:
            execution = trace.rounds[0].execution
            if execution is not None and trace.rounds[0].prompt_kind == "native":
                modes[trace.question_id] = oracle_mode(execution, trace.right, tau)
    return modes


def plan_record(
    question_id: str,
    answered: Result,
    oracle: Mapping[str, Mode],
    *,
    gold: str | None,
    choices: Sequence[str],
) -> PlanRecord:
    """The record of a question whose correct letter is `gold`, None if unknown."""
    first = answered.rounds[0] if answered.rounds else None
    execution = first.execution if first is not None else None
    letter = answered.final.letter if answered.final is not None else None
    return PlanRecord(
        id=question_id,
        raw=first.raw if first is not None else "",
        well_formed=first is not None and not first.faults,
        mode=first.mode if first is not None else None,
        oracle=oracle.get(question_id),
        status=execution.status if execution is not None else "",
        letter=letter,
        correct=letter in right_letters(gold, choices),
        error=answered.error.message if answered.error is not None else None,
        error_type=answered.error.type if answered.error is not None else None,
    )


def trace_plan_record(trace: Trace, oracle: Mapping[str, Mode]) -> PlanRecord:
    """The record of a trace of a finished run."""
    return plan_record(trace.question_id, trace, oracle, gold=trace.gold, choices=trace.choices)


def planning_metrics(replies: Sequence[PlanRecord]) -> dict[str, float]:
    """Shares of the questions that could have been answered, without those that are left out (`errors`):
    well-formed replies, programs that ran to their end,
    correct answers, native programs; and mode accuracy among those with an oracle mode, plain and as the mean
    over both modes (0.5 for a planner that always chooses the same mode)."""
    counted = [record for record in replies if not record.is_left_out]
    metrics: dict[str, float] = {
        "questions": float(len(counted)),
        "errors": float(len(replies) - len(counted)),
    }
    if counted:
        metrics["well_formed"] = _share([record.well_formed for record in counted])
        metrics["executed"] = _share([record.status in ("ok", "empty") for record in counted])
        metrics["answer_accuracy"] = _share([record.correct for record in counted])
        metrics["native_share"] = _share([record.mode == "native" for record in counted])
    judged = [record for record in counted if record.oracle is not None]
    if judged:
        metrics["mode_accuracy"] = _share([record.mode == record.oracle for record in judged])
        by_mode = [
            [record.mode == mode for record in judged if record.oracle == mode]
            for mode in ("native", "program")
        ]
        # A mean over both modes needs questions of both.
        if all(by_mode):
            metrics["mode_balanced_accuracy"] = sum(map(_share, by_mode)) / len(by_mode)
    return metrics


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags)
