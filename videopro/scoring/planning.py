"""How well a planner plans: replies in the right form, programs that run, and the mode chosen against the one
that was enough.

Pure functions over what came of questions, for evaluations during a training and for finished runs alike.
Knows traces; must not know planners, models or files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from videopro.question import right_letters
from videopro.traces import Execution, Failure, Reply, Round, Trace, is_confident

Mode = Literal["native", "program"]


@dataclass(frozen=True)
class PlanRecord:
    """What came of the first reply to one question, and the answer that counts."""

    id: str
    raw: str
    well_formed: bool
    mode: Mode | None
    oracle: Mode | None
    status: str
    """Of the execution: ok, failed or empty; "" where there is none."""
    letter: str | None
    correct: bool
    error: str | None
    """Why the question could not be asked at all, such as a video that cannot be read; it counts in no
    figure but that of errors."""


def oracle_mode(native: Execution, right: Collection[str], tau: float) -> Mode:
    """m* of A.3: native where the native answer is one of the `right` letters, and confident."""
    return "native" if is_confident(native, tau) and native.answer in right else "program"


def oracle_modes(native: Iterable[Trace], tau: float) -> dict[str, Mode]:
    """The oracle mode of each question that a run of method `native` answered. Questions without a known
    answer, or that it could not ask, have none."""
    found: dict[str, Mode] = {}
    for trace in native:
        if trace.error is None and trace.gold is not None and trace.rounds:
            execution = trace.rounds[0].execution
            if execution is not None and trace.rounds[0].prompt_kind == "native":
                found[trace.question_id] = oracle_mode(execution, trace.right, tau)
    return found


class HasRounds(Protocol):
    """What a method made of a question: a `Result`, or the trace that holds one."""

    @property
    def rounds(self) -> tuple[Round, ...]: ...

    @property
    def final(self) -> Reply | None: ...

    @property
    def error(self) -> Failure | None: ...


def plan_record(
    question_id: str,
    answered: HasRounds,
    oracle: Mapping[str, Mode],
    *,
    gold: str | None,
    choices: Sequence[str],
) -> PlanRecord:
    """What came of the first reply to a question with the right letter `gold` among these options, and
    whether the answer that counts is right."""
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
    )


def trace_plan_record(trace: Trace, oracle: Mapping[str, Mode]) -> PlanRecord:
    """The same of a finished run's trace."""
    return plan_record(trace.question_id, trace, oracle, gold=trace.gold, choices=trace.choices)


def planning_metrics(replies: Sequence[PlanRecord]) -> dict[str, float]:
    """Shares among the questions that could be asked: replies in the right form, programs that ran to
    their end, right answers, native programs; and mode accuracy among those with an oracle mode, plain and as
    the mean over both modes (0.5 for a planner that always chooses one)."""
    asked = [one for one in replies if one.error is None]
    found: dict[str, float] = {"questions": float(len(asked)), "errors": float(len(replies) - len(asked))}
    if asked:
        found["well_formed"] = _share([one.well_formed for one in asked])
        found["executed"] = _share([one.status in ("ok", "empty") for one in asked])
        found["answer_accuracy"] = _share([one.correct for one in asked])
        found["native_share"] = _share([one.mode == "native" for one in asked])
    judged = [one for one in asked if one.oracle is not None]
    if judged:
        found["mode_accuracy"] = _share([one.mode == one.oracle for one in judged])
        by_mode = [
            [one.mode == mode for one in judged if one.oracle == mode] for mode in ("native", "program")
        ]
        if all(by_mode):
            found["mode_balanced_accuracy"] = sum(map(_share, by_mode)) / len(by_mode)
    return found


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags)
