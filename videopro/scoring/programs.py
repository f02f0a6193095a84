"""What the programs of a run did: modes, output, refinements, and what became of a teacher's faults.

From traces alone (the paper's Tables 2 and 5). Knows traces and nothing of how a run is carried out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from videopro.traces import FALLBACK, Reply, Round, Trace


def program_metrics(traces: Sequence[Trace]) -> dict[str, Any]:
    """JSON-able; shares in 0..1 of the questions that have an answer, None where there is none.

    `modes`: how the first reply reasons (Table 5: native and program make up the whole, with replies that
    hold no program as a third part), and how many questions were refined or answered by the fallback;
    refinements that were only stored for other thresholds do not count. `output`: characters and tokens
    written a question (Table 2). `planning`: what writing all programs took. `repairs`: for each way in
    which first programs went wrong, and for each fault that the pocket teacher put in, how many there were
    and what became of them.
    """
    own = [trace for trace in traces if trace.error is None and trace.rounds]
    n = len(own)

    def share(count: int) -> float | None:
        return count / n if n else None

    return {
        "modes": {
            "native": share(sum(trace.rounds[0].mode == "native" for trace in own)),
            "program": share(sum(trace.rounds[0].mode == "program" for trace in own)),
            "none": share(sum(trace.rounds[0].mode is None for trace in own)),
            "refined": share(sum(trace.refined > 0 for trace in own)),
            "fallback": share(sum(is_fallback(trace) for trace in own)),
        },
        "output": {
            "characters": sum(len(one.raw) for trace in own for one in counted(trace)) / n if n else None,
            "tokens": sum(trace.cost.tokens_out for trace in own) / n if n else None,
        },
        "planning": {
            name: sum(getattr(one.planning, name) for trace in traces for one in trace.rounds)
            for name in ("calls", "tokens_in", "tokens_out", "seconds")
        },
        "repairs": {
            "by_state": _repairs(own, _state),
            "by_fault": _repairs(own, _fault),
        },
    }


def is_fallback(trace: Trace) -> bool:
    """Whether the answer that counts is the direct one that was asked for where no program gave any."""
    return trace.settled is not None and trace.rounds[trace.settled].prompt_kind == FALLBACK


def counted(trace: Trace) -> tuple[Round, ...]:
    """The rounds that the run's own settings called for."""
    return trace.rounds[: trace.refined + 1]


def _state(trace: Trace) -> str:
    """How the first program went wrong: "failed", "empty", or "unsure"; "" where nothing was refined."""
    first = trace.rounds[0].execution
    if first is None or trace.refined == 0:
        return ""
    return {"failed": "failed", "empty": "empty", "ok": "unsure"}[first.status]


def _fault(trace: Trace) -> str:
    return trace.rounds[0].notes.get("fault", "")


def _repairs(traces: Sequence[Trace], kind_of: Callable[[Trace], str]) -> dict[str, dict[str, int]]:
    """For each kind of first program ("" is none) counts: how many, how many of them failed, were refined,
    answered after their refinement, and were right before and after it. A fallback's answer is no program's:
    it neither repairs nor is right here."""
    groups: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        kind = kind_of(trace)
        if kind:
            groups[kind].append(trace)
    return {
        kind: {
            "n": len(own),
            "failed": sum(_status(trace.rounds[0]) == "failed" for trace in own),
            "refined": sum(trace.refined > 0 for trace in own),
            "repaired": sum(trace.refined > 0 and _status(counted(trace)[-1]) == "ok" for trace in own),
            "repaired_of_failed": sum(
                _status(trace.rounds[0]) == "failed"
                and trace.refined > 0
                and _status(counted(trace)[-1]) == "ok"
                for trace in own
            ),
            "right_before": sum(_is_right(trace, trace.first) for trace in own),
            "right_after": sum(not is_fallback(trace) and _is_right(trace, trace.final) for trace in own),
        }
        for kind, own in sorted(groups.items())
    }


def _status(one: Round) -> str:
    return one.execution.status if one.execution is not None else ""


def _is_right(trace: Trace, reply: Reply | None) -> bool:
    return reply is not None and trace.is_right(reply.letter)
