"""Metrics about planning and programs, from traces: well-formed replies, programs that run, the chosen mode
against the oracle mode, refinements, and how a teacher's injected faults were repaired (the paper's Tables 2
and 5). Pure functions, for evaluations during training and for finished runs alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from videopro.question import Answer, right_letters
from videopro.traces.record import FALLBACK, Execution, Result, Round, Trace
from videopro.traces.scoring.open_answers import exact_match
from videopro.traces.scoring.verdicts import INPUT_ERRORS
from videopro.traces.selection import is_confident

PLANNER_TOKENS_OUT = "planner tokens out"
"""Heading of `planner_tokens_out`."""
TOKENS_NOTE = (
    "Tokens in: the prompts of all model calls, of the planner and of the modules; a prefix that calls share "
    "counts in each. Tokens out: what the models wrote in these calls."
)
PLANNER_TOKENS_NOTE = (
    "Planner tokens out: the part of the tokens out that the planner wrote for the programs that count, the "
    "paper's output length; empty or - where the planner counts no tokens."
)
"""With TOKENS_NOTE what every table means by tokens."""


def planner_tokens_out(traces: Sequence[Trace]) -> float | None:
    """Mean number of tokens that the planner wrote per question: the paper's output length. 0 if nothing was
    planned; None without questions, and if the planner counts no tokens."""
    written = [
        attempt
        for trace in traces
        for attempt in counted(trace)
        if attempt.program is not None or attempt.faults
    ]
    tokens = sum(attempt.planning.tokens_out for attempt in written)
    # Programs of no tokens: the planner does not count them.
    if not traces or (written and not tokens):
        return None
    return tokens / len(traces)


def program_metrics(traces: Sequence[Trace]) -> dict[str, Any]:
    """JSON-able metrics; shares are in 0..1 of the questions without an error, None if there are none.

    `output`: characters and tokens written per question (Table 2). `planning`: the total cost of writing
    programs. `repairs`: for each state of first programs that were refined, and for each fault that a teacher
    injected, how many there were and how they ended.
    """
    answered = _answered(traces)
    n = len(answered)
    return {
        "output": {
            "characters": (
                sum(len(attempt.raw) for trace in answered for attempt in counted(trace)) / n if n else None
            ),
            "tokens": sum(trace.cost.tokens_out for trace in answered) / n if n else None,
        },
        "planning": {
            name: sum(getattr(attempt.planning, name) for trace in traces for attempt in trace.rounds)
            for name in ("calls", "tokens_in", "tokens_out", "seconds")
        },
        "repairs": {
            "by_state": _repairs(answered, _state),
            "by_fault": _repairs(answered, _fault),
        },
    }


def mode_shares(traces: Sequence[Trace]) -> dict[str, float | None]:
    """The mode of the first reply (Table 5: native, program, or none if it contains no program), and the
    shares of questions refined and answered by the fallback, in 0..1 of the questions without an error (None
    if there are none); refinements only stored for other thresholds do not count."""
    answered = _answered(traces)
    counts = {
        "native": sum(trace.rounds[0].mode == "native" for trace in answered),
        "program": sum(trace.rounds[0].mode == "program" for trace in answered),
        "none": sum(trace.rounds[0].mode is None for trace in answered),
        "refined": sum(trace.refined > 0 for trace in answered),
        "fallback": sum(is_fallback(trace) for trace in answered),
    }
    return {name: count / len(answered) if answered else None for name, count in counts.items()}


def _answered(traces: Sequence[Trace]) -> list[Trace]:
    return [trace for trace in traces if trace.error is None and trace.rounds]


def is_fallback(trace: Trace) -> bool:
    """Whether the answer that counts is the fallback's: a direct answer, as no program returned any."""
    return trace.selected is not None and trace.rounds[trace.selected].prompt_kind == FALLBACK


def counted(trace: Trace) -> tuple[Round, ...]:
    """The rounds that the run's own settings require."""
    return trace.rounds[: trace.refined + 1]


def _state(trace: Trace) -> str:
    """Why the first program was refined: "failed", "empty" or "unsure"; "" if it was not."""
    first = trace.rounds[0].execution
    if first is None or trace.refined == 0:
        return ""
    # A program that answered is refined only where it was unsure.
    return {"failed": "failed", "empty": "empty", "ok": "unsure"}[first.status]


def _fault(trace: Trace) -> str:
    return trace.rounds[0].notes.get("fault", "")


def _repairs(traces: Sequence[Trace], kind_of: Callable[[Trace], str]) -> dict[str, dict[str, int]]:
    """Counts for each kind of first program ("" is skipped): how many there were, failed, were refined, were
    answered after their refinement, and were correct before and after it. A fallback's answer is not a
    program's: here it neither repairs nor is correct."""
    groups: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        kind = kind_of(trace)
        if kind:
            groups[kind].append(trace)
    return {
        kind: {
            "n": len(members),
            "failed": sum(_status(trace.rounds[0]) == "failed" for trace in members),
            "refined": sum(trace.refined > 0 for trace in members),
            "repaired": sum(trace.refined > 0 and _status(counted(trace)[-1]) == "ok" for trace in members),
            "repaired_of_failed": sum(
                _status(trace.rounds[0]) == "failed"
                and trace.refined > 0
                and _status(counted(trace)[-1]) == "ok"
                for trace in members
            ),
            "right_before": sum(_is_right(trace, trace.first) for trace in members),
            "right_after": sum(not is_fallback(trace) and _is_right(trace, trace.final) for trace in members),
        }
        for kind, members in sorted(groups.items())
    }


def _status(attempt: Round) -> str:
    return attempt.execution.status if attempt.execution is not None else ""


def _is_right(trace: Trace, answer: Answer | None) -> bool:
    """By its letter; in words, by exact match."""
    if answer is None:
        return False
    if trace.reference is not None:
        return exact_match(answer.raw, trace.reference)
    return trace.is_right(answer.letter)


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
