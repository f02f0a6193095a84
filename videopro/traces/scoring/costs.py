"""The costs of questions: their own, and of preparations shared by many questions. Pure functions over
traces.

A question's own cost (`Trace.cost`) leaves out the index, the database or the selection that it used, and
replies that an earlier question about the video had paid for. Here both are counted, in two ways: raw, as if
each question stood alone, and amortised, shared by the questions of the run that used the same thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from videopro.traces.record import Trace
from videopro.traces.steps import Cost, Preparation, Step


@dataclass(frozen=True)
class QuestionCosts:
    """The cost of a question in three ways, or the mean of several."""

    own: Cost
    """The cost of this question alone."""
    raw: Cost
    """The own cost, every preparation that it used in full, and what its reused replies once cost."""
    amortised: Cost
    """The own cost, and each preparation divided by the questions of the run that used it."""
    is_at_least: bool = False
    """Whether a preparation's cost is unknown, so that raw and amortised costs are lower bounds."""


def question_costs(traces: Sequence[Trace]) -> list[QuestionCosts]:
    """The costs of each question; `traces` are all traces of one run.

    A reused reply belongs to the question that paid for it. If none of the run did (another run wrote the
    reply), the questions that reuse it share its cost.
    """
    # A question that used one preparation twice is one user of it.
    users = Counter(key for trace in traces for key in {_preparation_key(part) for part in trace.prepared})
    paid = {_reply_key(trace, step) for trace in traces for step in trace.steps if not step.is_reused}
    reused = Counter(_reply_key(trace, step) for trace in traces for step in trace.steps if step.is_reused)
    costs = []
    for trace in traces:
        raw = amortised = trace.cost
        for part in trace.prepared:
            raw = raw + part.cost
            amortised = amortised + part.cost.share(users[_preparation_key(part)])
        for step in trace.steps:
            if step.is_reused:
                raw = raw + step.cost
                key = _reply_key(trace, step)
                if key not in paid:
                    amortised = amortised + step.cost.share(reused[key])
        costs.append(
            QuestionCosts(trace.cost, raw, amortised, any(not part.is_known for part in trace.prepared))
        )
    return costs


def mean_costs(traces: Sequence[Trace]) -> QuestionCosts | None:
    """The mean per question; None without questions."""
    per_question = question_costs(traces)
    if not per_question:
        return None
    count = len(per_question)
    return QuestionCosts(
        sum((costs.own for costs in per_question), Cost()).share(count),
        sum((costs.raw for costs in per_question), Cost()).share(count),
        sum((costs.amortised for costs in per_question), Cost()).share(count),
        any(costs.is_at_least for costs in per_question),
    )


def cost_metrics(traces: Sequence[Trace]) -> dict[str, Any]:
    """JSON-able: the mean costs of a question ("own", "raw", "amortised"; None without questions), and for
    each kind of preparation how many there were, how many questions used one, and what they cost."""
    mean = mean_costs(traces)
    views = {} if mean is None else {"own": mean.own, "raw": mean.raw, "amortised": mean.amortised}
    parts = {_preparation_key(part): part for trace in traces for part in trace.prepared}
    kinds = sorted({part.kind for part in parts.values()})
    return {
        **{name: asdict(views[name]) if views else None for name in ("own", "raw", "amortised")},
        "is_at_least": mean is not None and mean.is_at_least,
        "preparations": {
            kind: {
                "n": sum(part.kind == kind for part in parts.values()),
                "unknown": sum(part.kind == kind and not part.is_known for part in parts.values()),
                "questions": sum(any(part.kind == kind for part in trace.prepared) for trace in traces),
                "cost": asdict(sum((part.cost for part in parts.values() if part.kind == kind), Cost())),
                "audio_seconds": sum(part.audio_seconds for part in parts.values() if part.kind == kind),
            }
            for kind in kinds
        },
    }


def _preparation_key(part: Preparation) -> Hashable:
    return part.kind, part.key


def _reply_key(trace: Trace, step: Step) -> Hashable:
    """Names a reply, whichever question got it."""
    return trace.video.id or trace.video.key, step.kind, step.model, step.prompt, step.frames, step.raw
