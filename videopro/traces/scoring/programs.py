"""Metrics about the programs of a run, from its traces: modes, output, refinements, and how a teacher's
injected faults were repaired (the paper's Tables 2 and 5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from videopro.question import Answer
from videopro.traces.record import FALLBACK, Round, Trace
from videopro.traces.scoring.open_answers import exact_match

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

    `modes`: the mode of the first reply (Table 5: native, program, or none if it contains no program), and
    the shares of questions refined and answered by the fallback; refinements only stored for other thresholds
    do not count. `output`: characters and tokens written per question (Table 2). `planning`: the total cost
    of writing programs. `repairs`: for each state of first programs that were refined, and for each fault
    that a teacher injected, how many there were and how they ended.
    """
    answered = [trace for trace in traces if trace.error is None and trace.rounds]
    n = len(answered)

    def share(count: int) -> float | None:
        return count / n if n else None

    return {
        "modes": {
            "native": share(sum(trace.rounds[0].mode == "native" for trace in answered)),
            "program": share(sum(trace.rounds[0].mode == "program" for trace in answered)),
            "none": share(sum(trace.rounds[0].mode is None for trace in answered)),
            "refined": share(sum(trace.refined > 0 for trace in answered)),
            "fallback": share(sum(is_fallback(trace) for trace in answered)),
        },
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
