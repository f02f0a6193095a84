"""The metrics of each benchmark, computed from the traces of a run: the kinds of `Metric`.

Every number comes twice: `robust` (our answer parser; questions with no correct option are left out) and
`official` (the benchmark's own parser and its own rule for replies it cannot parse). The intervals for
CG-Bench are those that retrieval returned in the answer that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from videopro import scoring
from videopro.benchmarks.grounding import grounding
from videopro.benchmarks.intervals import interval_iou
from videopro.benchmarks.protocol import Metric, Protocol, counts
from videopro.benchmarks.question_sets import mean_set_score
from videopro.scoring import QuestionScore
from videopro.traces import Trace

# CG-Bench counts an IoU above each of these, and takes the mean over them.
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class JudgeGrade:
    """A judge's grade of an open answer; None: the judge's reply could not be parsed."""

    robust: int | None
    official: int | None


@dataclass(frozen=True)
class MetricValue:
    """A metric's two numbers: shares in 0..1, mean grades, or None if there is nothing to divide by."""

    robust: float | None
    official: float | None
    n: int
    """Number of questions behind the robust number."""
    valid: float | None = None
    """For grades: the robust mean without answers that failed (they count 0 in `robust`)."""


def compute_metrics(
    protocol: Protocol,
    traces: Sequence[Trace],
    robust: Sequence[QuestionScore],
    official: Sequence[QuestionScore],
    grades: Mapping[str, JudgeGrade],
) -> dict[str, MetricValue]:
    """Every metric of a protocol. `robust` and `official`: the questions behind each of the two scores."""
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
    if metric.kind == "grounding":
        return MetricValue(*grounding(metric, protocol, list(traces.values())))
    if metric.kind == "set":
        value, questions = mean_set_score(metric, robust, traces, lambda score: score.correct)
        official_value, _ = mean_set_score(
            metric, official, traces, lambda score: bool(score.official_correct)
        )
        return MetricValue(value, official_value, questions)
    robust_scores = [score for score in robust if counts(metric, score.groups)]
    official_scores = [score for score in official if counts(metric, score.groups)]
    if metric.kind == "accuracy":
        official_accuracy = scoring.official_accuracy(official_scores, unparsed=protocol.official_unparsed)
        return MetricValue(
            scoring.accuracy(robust_scores).accuracy, official_accuracy.accuracy, len(robust_scores)
        )
    if metric.kind == "macro":
        return MetricValue(
            scoring.macro_accuracy(scoring.group_accuracy(robust_scores).get(metric.over, {})),
            _macro(official_scores, metric.over, protocol),
            len(robust_scores),
        )
    marked = [score for score in robust_scores if traces[score.question_id].evidence]
    value = _over_intervals(metric, marked, traces, lambda score: score.correct)
    official_marked = [score for score in official_scores if traces[score.question_id].evidence]
    official_value = _over_intervals(
        metric, official_marked, traces, lambda score: bool(score.official_correct)
    )
    return MetricValue(value, official_value, len(marked))


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
    """The intervals (s) that retrieval returned in the round whose answer counts."""
    if trace.selected is None:
        return []
    execution = trace.rounds[trace.selected].execution
    calls = execution.calls if execution is not None else ()
    return [(start, end) for call in calls for start, end in call.intervals]


def _over_intervals(
    metric: Metric,
    records: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    right: Callable[[QuestionScore], bool],
) -> float | None:
    if not records:
        return None
    ious = []
    for score in records:
        trace = traces[score.question_id]
        ious.append((interval_iou(retrieved(trace), trace.evidence), right(score)))
    if metric.kind == "iou":
        return sum(iou for iou, _ in ious) / len(ious)
    needs_right = metric.kind == "accuracy_at_iou"
    hits = sum(
        iou > threshold and (good or not needs_right) for threshold in THRESHOLDS for iou, good in ious
    )
    return hits / len(ious) / len(THRESHOLDS)


# ---- grades (MMBench-Video) -------------------------------------------------------------------------------


def _grade(metric: Metric, traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]) -> MetricValue:
    """Mean grades over open questions. A question without an answer or a parsed grade counts 0, and is left
    out of `valid`. None as long as nothing is graded."""
    open_traces = [trace for trace in traces if trace.reference is not None and counts(metric, trace.groups)]
    given = [grades[trace.question_id] for trace in open_traces if trace.question_id in grades]
    if not open_traces or not given:
        return MetricValue(None, None, len(open_traces))
    robust = [grade.robust for grade in given if grade.robust is not None]
    return MetricValue(
        sum(robust) / len(open_traces),
        sum(grade.official or 0 for grade in given) / len(open_traces),
        len(open_traces),
        sum(robust) / len(robust) if robust else None,
    )
