"""The metrics of each benchmark, computed from the traces of a run: the kinds of `Metric`.

Every number comes twice: `robust` (our answer parser; questions with no correct option are left out) and
`official` (the benchmark's own parser and its own rule for replies it cannot parse). The intervals for
CG-Bench are those that the reply names if the protocol asks for them, and otherwise those that retrieval
returned in the answer that counts.

Questions that count together are Video-MME-v2's sets of four. Their scorer is `cal_relevance` and `cal_logic`
of lmms_eval/tasks/videomme_v2/utils.py of EvolvingLMMs-Lab/lmms-eval, commit 394a8e4. Its tables follow from
one rule: the questions of level 1, 2, ... of a chain weigh 1, 3, 5, ..., and count up to the first level that
is not wholly right, whose right questions still count. Without a chain, the share of right ones is squared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from videopro.benchmarks.protocol import Metric, Protocol, counts
from videopro.question import extract_intervals, written_intervals
from videopro.traces import SetMember, Trace, scoring
from videopro.traces.scoring import GROUP_SEPARATOR, QuestionScore

# CG-Bench counts an IoU of at least each of these, and takes the mean over them (run/stat_with_key.py).
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
    official_valid: float | None = None
    """For grades: the same of the official mean."""


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
    if metric.kind == "judged":
        return _judged(metric, list(traces.values()), grades)
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
    if protocol.reply == "intervals":
        return _over_written(metric, list(traces.values()))
    # Without an annotated clue there is nothing to compare with.
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
    # No round's answer counts, so no retrieval does.
    if trace.selected is None:
        return []
    execution = trace.rounds[trace.selected].execution
    calls = execution.calls if execution is not None else ()
    return [(start, end) for call in calls for start, end in call.intervals]


def written_iou(trace: Trace) -> float | None:
    """The IoU of the intervals that a reply names with the clue, as CG-Bench computes it; None if it reads no
    intervals in the reply."""
    if trace.final is None:
        return None
    written = written_intervals(trace.final.raw)
    return None if written is None else interval_iou(written, trace.evidence)


def share_at_iou(ious: Sequence[tuple[float, bool]]) -> float | None:
    """The share of questions, right ones only, whose IoU is at least a threshold: mean over THRESHOLDS."""
    if not ious:
        return None
    hits = sum(iou >= threshold and right for threshold in THRESHOLDS for iou, right in ious)
    return hits / (len(ious) * len(THRESHOLDS))


def _over_written(metric: Metric, traces: Sequence[Trace]) -> MetricValue:
    """Over the intervals of replies: those that our parser reads, where an unreadable reply has an IoU of 0,
    and those that the script reads, where it leaves the denominator."""
    marked = [trace for trace in traces if trace.evidence and scoring.is_answerable(trace)]
    ours = [() if trace.final is None else extract_intervals(trace.final.raw) for trace in marked]
    robust = [(interval_iou(read, trace.evidence), True) for read, trace in zip(ours, marked, strict=True)]
    official = [(iou, True) for trace in marked if (iou := written_iou(trace)) is not None]
    return MetricValue(_over(metric, robust), _over(metric, official), len(marked))


def _over(metric: Metric, ious: Sequence[tuple[float, bool]]) -> float | None:
    if metric.kind == "iou":
        return sum(iou for iou, _ in ious) / len(ious) if ious else None
    needs_right = metric.kind == "accuracy_at_iou"
    return share_at_iou([(iou, right or not needs_right) for iou, right in ious])


def _over_intervals(
    metric: Metric,
    records: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    right: Callable[[QuestionScore], bool],
) -> float | None:
    scored = [traces[score.question_id] for score in records]
    ious = [interval_iou(retrieved(trace), trace.evidence) for trace in scored]
    return _over(metric, list(zip(ious, map(right, records), strict=True)))


# ---- grades (MMBench-Video, CG-Bench's open questions) ----------------------------------------------------


def _grade(metric: Metric, traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]) -> MetricValue:
    """Mean grades over open questions. A question without an answer or a parsed grade counts 0, and is left
    out of `valid`. None as long as nothing is graded."""
    open_traces = [
        trace
        for trace in traces
        for _ in range(_times_counted(metric, trace.groups))
        if trace.reference is not None
    ]
    graded = [grades[trace.question_id] for trace in open_traces if trace.question_id in grades]
    if not open_traces or not graded:
        return MetricValue(None, None, len(open_traces))
    robust = [grade.robust for grade in graded if grade.robust is not None]
    # VLMEvalKit has -1 for what it cannot read, and counts a negative grade like it.
    official = [grade.official for grade in graded if grade.official is not None and grade.official >= 0]
    return MetricValue(
        sum(robust) / len(open_traces),
        sum(official) / len(open_traces),
        len(open_traces),
        sum(robust) / len(robust) if robust else None,
        sum(official) / len(official) if official else None,
    )


def _times_counted(metric: Metric, groups: Mapping[str, str]) -> int:
    """How often a question counts: once, but a single dimension as often as the question lists it."""
    if len(metric.of) == 1:
        return groups.get(metric.over, "").split(GROUP_SEPARATOR).count(metric.of[0])
    return int(counts(metric, groups))


def _judged(metric: Metric, traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]) -> MetricValue:
    """The share of open questions that the judge graded 1. One without a grade is wrong, and officially
    leaves the denominator (run/stat_with_key.py of CG-Bench/CG-Bench). None if nothing is graded yet."""
    open_traces = [trace for trace in traces if trace.reference is not None and counts(metric, trace.groups)]
    graded = [grades[trace.question_id] for trace in open_traces if trace.question_id in grades]
    if not open_traces or not graded:
        return MetricValue(None, None, len(open_traces))
    official = [grade.official for grade in graded if grade.official is not None]
    return MetricValue(
        sum(grade.robust == 1 for grade in graded) / len(open_traces),
        sum(grade == 1 for grade in official) / len(official) if official else None,
        len(open_traces),
    )


def grounding(
    metric: Metric, protocol: Protocol, traces: Sequence[Trace]
) -> tuple[float | None, float | None, int]:
    """The mean IoU, or the share of questions with an IoU of at least `metric.at`: of the intervals that our
    parser reads, of those that the official one reads, and the number of questions. A reply without intervals
    has an IoU of 0; officially it leaves the denominator if the protocol says so."""
    answerable = [trace for trace in traces if _is_grounding(trace) and counts(metric, trace.groups)]
    robust = [
        _iou(trace, () if trace.final is None else extract_intervals(trace.final.raw)) for trace in answerable
    ]
    left_out = protocol.official_unparsed == "left out"
    official = [
        _iou(trace, trace.official_intervals or ())
        for trace in answerable
        if trace.official_intervals or not left_out
    ]
    return _mean(metric, robust), _mean(metric, official), len(answerable)


def unread_share(traces: Sequence[Trace]) -> float | None:
    """The share of answered questions in whose replies our parser reads no interval; None without any."""
    replies = [_read(trace) for trace in traces if _is_grounding(trace) and trace.final is not None]
    return sum(not intervals for intervals in replies) / len(replies) if replies else None


def _is_grounding(trace: Trace) -> bool:
    return bool(trace.evidence) and scoring.is_answerable(trace)


def _read(trace: Trace) -> Sequence[Sequence[float]]:
    return () if trace.final is None else extract_intervals(trace.final.raw)


def _iou(trace: Trace, intervals: Sequence[Sequence[float]]) -> float:
    # The official formula for the ordinary case: at a threshold, its rounding decides.
    if len(intervals) == len(trace.evidence) == 1:
        return pair_iou(intervals[0], trace.evidence[0])
    return interval_iou(intervals, trace.evidence)


def _mean(metric: Metric, ious: Sequence[float]) -> float | None:
    values = ious if metric.at is None else [float(iou >= metric.at) for iou in ious]
    return sum(values) / len(values) if values else None


def mean_set_score(
    metric: Metric,
    scores: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    right: Callable[[QuestionScore], bool],
) -> tuple[float | None, int]:
    """The mean score of the sets, 0 to 1, and the number of their questions. A set counts if all its
    questions have a score, and belongs to the groups of its last question."""
    sets: dict[str, dict[int, tuple[QuestionScore, SetMember]]] = {}
    for score in scores:
        member = traces[score.question_id].member
        if member is not None:
            sets.setdefault(member.set, {})[member.place] = (score, member)
    values, questions = [], 0
    for members in sets.values():
        in_order = [members[position] for position in sorted(members)]
        last, member = in_order[-1]
        # A set with an unscored question has no score: the official one needs all four.
        if len(in_order) == member.size and counts(metric, last.groups):
            values.append(set_score([right(score) for score, _ in in_order], member.chain))
            questions += len(in_order)
    return (sum(values) / len(values) if values else None), questions


def set_score(right: Sequence[bool], chain: Sequence[int] = ()) -> float:
    """The score of one set, 0 to 1. `chain`: the numbers of questions on each of its levels, or empty.

    >>> set_score([True, True, False, True])
    0.5625
    >>> set_score([True, False, True, True], (1, 2, 1))  # 1 and 3 of 1 + 3 + 3 + 5
    0.3333333333333333
    """
    if not chain:
        return (sum(right) / len(right)) ** 2
    weights = [2 * level + 1 for level, count in enumerate(chain) for _ in range(count)]
    earned, start = 0, 0
    for level, count in enumerate(chain):
        hits = sum(right[start : start + count])
        earned += hits * (2 * level + 1)
        start += count
        if hits < count:
            break
    return earned / sum(weights)


def interval_iou(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """Intersection over union of two sets of intervals, in time; 0 if the union is empty."""
    ours, other = _merged(first), _merged(second)
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in ours for b in other)
    total = sum(end - start for start, end in (*ours, *other)) - both
    return both / total if total > 0 else 0.0


def pair_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two intervals, in time. As in lmms-eval, the union is the time from the
    first start to the last end: `interval_iou` may differ in the last digit, which decides at a threshold."""
    span = max(first[1], second[1]) - min(first[0], second[0])
    both = min(first[1], second[1]) - max(first[0], second[0])
    return max(0.0, both) / span if span > 0 else 0.0


def _merged(intervals: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted((interval[0], interval[1]) for interval in intervals):
        # Overlaps count once.
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
