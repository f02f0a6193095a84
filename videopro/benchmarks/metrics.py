"""What a benchmark is reported by, from the traces of a run: the kinds of `Metric`.

Every number comes twice: `robust` (our reader; questions none of whose options is right are left out) and
`official` (the benchmark's own reader and its own rule for what that cannot read). Intervals of CG-Bench are
those that retrieval gave in the answer that counts. Knows traces and scoring; must not know files, methods or
how a run is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from videopro.benchmarks.protocol import Metric, Protocol
from videopro.scoring import GROUP_SEPARATOR, QuestionScore
from videopro.scoring import metrics as scoring
from videopro.traces import Trace

# CG-Bench counts an IoU above each of these, and takes the mean over them.
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class JudgeGrade:
    """What a judge said of an open answer; None: nothing that can be read."""

    robust: int | None
    official: int | None


@dataclass(frozen=True)
class MetricValue:
    """A metric's two numbers: shares of 0..1, mean grades, or None where there is nothing to divide by."""

    robust: float | None
    official: float | None
    n: int
    """Questions that the robust number is over."""
    valid: float | None = None
    """For grades: the robust mean without answers that failed (they count 0 in `robust`)."""


def compute(
    protocol: Protocol,
    traces: Sequence[Trace],
    robust: Sequence[QuestionScore],
    official: Sequence[QuestionScore],
    grades: Mapping[str, JudgeGrade],
) -> dict[str, MetricValue]:
    """Every metric of a protocol. `robust` and `official`: the verdicts that the two scores are over."""
    by_id = {trace.question_id: trace for trace in traces}
    return {
        metric.name: _value(metric, protocol, by_id, robust, official, grades) for metric in protocol.metrics
    }


def _value(
    metric: Metric,
    protocol: Protocol,
    traces: Mapping[str, Trace],
    robust: Sequence[QuestionScore],
    official: Sequence[QuestionScore],
    grades: Mapping[str, JudgeGrade],
) -> MetricValue:
    if metric.kind == "grade":
        return _grade(metric, list(traces.values()), grades)
    own = [one for one in robust if _counts(metric, one.groups)]
    their = [one for one in official if _counts(metric, one.groups)]
    if metric.kind == "accuracy":
        theirs = scoring.official_accuracy(their, unparsed=protocol.official_unparsed)
        return MetricValue(scoring.accuracy(own).accuracy, theirs.accuracy, len(own))
    if metric.kind == "macro":
        return MetricValue(
            scoring.macro_accuracy(scoring.group_accuracy(own).get(metric.over, {})),
            _macro(their, metric.over, protocol),
            len(own),
        )
    marked = [one for one in own if traces[one.question_id].evidence]
    value = _over_intervals(metric, marked, traces, lambda one: one.correct)
    theirs_marked = [one for one in their if traces[one.question_id].evidence]
    their_value = _over_intervals(metric, theirs_marked, traces, lambda one: bool(one.official_correct))
    return MetricValue(value, their_value, len(marked))


def _counts(metric: Metric, groups: Mapping[str, str]) -> bool:
    return not metric.of or any(
        name in metric.of for name in groups.get(metric.over, "").split(GROUP_SEPARATOR)
    )


def _macro(records: Sequence[QuestionScore], over: str, protocol: Protocol) -> float | None:
    parts = scoring.grouped(records).get(over, {})
    return scoring.macro_accuracy(
        {
            name: scoring.official_accuracy(members, unparsed=protocol.official_unparsed)
            for name, members in parts.items()
        }
    )


# ---- intervals (CG-Bench) ---------------------------------------------------------------------------------


def retrieved(trace: Trace) -> list[tuple[float, float]]:
    """What retrieval gave in the round whose answer counts, in seconds."""
    if trace.settled is None:
        return []
    execution = trace.rounds[trace.settled].execution
    calls = execution.calls if execution is not None else ()
    return [(start, end) for call in calls for start, end in call.intervals]


def interval_iou(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """The overlap of two sets of intervals over their union, in time; 0 where there is no time at all."""
    own, other = _merged(first), _merged(second)
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in own for b in other)
    total = sum(end - start for start, end in (*own, *other)) - both
    return both / total if total > 0 else 0.0


def _merged(intervals: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted((one[0], one[1]) for one in intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _over_intervals(
    metric: Metric,
    records: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    right: Callable[[QuestionScore], bool],
) -> float | None:
    if not records:
        return None
    ious = []
    for one in records:
        trace = traces[one.question_id]
        ious.append((interval_iou(retrieved(trace), trace.evidence), right(one)))
    if metric.kind == "iou":
        return sum(iou for iou, _ in ious) / len(ious)
    needs_right = metric.kind == "accuracy_at_iou"
    hits = sum(iou > one and (good or not needs_right) for one in THRESHOLDS for iou, good in ious)
    return hits / len(ious) / len(THRESHOLDS)


# ---- grades (MMBench-Video) -------------------------------------------------------------------------------


def _grade(metric: Metric, traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]) -> MetricValue:
    """Mean grades over open questions; without an answer or a readable grade one counts 0, and not at all in
    `valid`. None as long as nothing is graded."""
    own = [one for one in traces if one.reference is not None and _counts(metric, one.groups)]
    given = [grades[one.question_id] for one in own if one.question_id in grades]
    if not own or not given:
        return MetricValue(None, None, len(own))
    robust = [one.robust for one in given if one.robust is not None]
    return MetricValue(
        sum(robust) / len(own),
        sum(one.official or 0 for one in given) / len(own),
        len(own),
        sum(robust) / len(robust) if robust else None,
    )
