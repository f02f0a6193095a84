"""The metrics of each benchmark, computed from the traces of a run: the kinds of `Metric`.

Every number comes twice: `robust` (our answer parser; questions with no correct option are left out) and
`official` (the benchmark's own parser and its own rule for replies it cannot parse). The intervals for
CG-Bench come from the reply if the protocol asks for them, and otherwise from retrieval in the round of the
final answer.

Questions scored together are Video-MME-v2's sets of four. Their scorer is `cal_relevance` and `cal_logic` of
lmms_eval/tasks/videomme_v2/utils.py of EvolvingLMMs-Lab/lmms-eval, commit 394a8e4. Its tables follow from one
rule: the questions of level 1, 2, ... of a chain weigh 1, 3, 5, ..., and count up to the first level that is
not entirely right, whose right questions still count. Without a chain, the share of right answers is squared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
    """For grades: the robust mean without failed answers (which count 0 in `robust`)."""
    official_valid: float | None = None
    """For grades: the official mean without failed answers."""


def compute_metrics(
    protocol: Protocol,
    traces: Sequence[Trace],
    robust: Sequence[QuestionScore],
    official: Sequence[QuestionScore],
    grades: Mapping[str, JudgeGrade],
) -> dict[str, MetricValue]:
    """Every metric of a protocol. `robust` and `official`: the questions behind each of the two scores."""
    by_id = {trace.question_id: trace for trace in traces}
    official_accuracy = partial(scoring.official_accuracy, unparsed=protocol.official_unparsed)
    values = {}
    for metric in protocol.metrics:
        if metric.kind in ("grade", "judged"):
            values[metric.name] = _of_grades(metric, traces, grades)
        elif metric.kind == "grounding" or (protocol.reply == "intervals" and "iou" in metric.kind):
            values[metric.name] = _of_written_intervals(metric, protocol, traces)
        else:
            # Two lists, since our score leaves out questions without a right option.
            ours, n = _of_scores(metric, robust, by_id, scoring.accuracy, lambda score: score.correct)
            theirs, _ = _of_scores(
                metric, official, by_id, official_accuracy, lambda score: bool(score.official_correct)
            )
            values[metric.name] = MetricValue(ours, theirs, n)
    return values


def _of_scores(
    metric: Metric,
    scores: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    accuracy: Callable[[Sequence[QuestionScore]], scoring.Accuracy],
    right: Callable[[QuestionScore], bool],
) -> tuple[float | None, int]:
    """A metric over letters scored with one of the two parsers, and the number of questions."""
    if metric.kind == "set":
        return _of_sets(metric, scores, traces, right)
    scores = [score for score in scores if counts(metric, score.groups)]
    if metric.kind == "accuracy":
        return accuracy(scores).accuracy, len(scores)
    if metric.kind == "macro":
        parts = scoring.grouped(scores).get(metric.over, {})
        return scoring.macro_accuracy({name: accuracy(part) for name, part in parts.items()}), len(scores)
    # Without an annotated clue there is nothing to compare with.
    marked = [(traces[score.question_id], right(score)) for score in scores]
    ious = [
        (interval_iou(_retrieved(trace), trace.evidence), is_right)
        for trace, is_right in marked
        if trace.evidence
    ]
    return _over(metric, ious), len(ious)


# ---- intervals --------------------------------------------------------------------------------------------


def _retrieved(trace: Trace) -> list[tuple[float, float]]:
    """The intervals (s) that retrieval returned in the round of the final answer."""
    # No round's answer counts, so no retrieval does.
    if trace.selected is None:
        return []
    execution = trace.rounds[trace.selected].execution
    calls = execution.calls if execution is not None else ()
    return [(start, end) for call in calls for start, end in call.intervals]


def written_iou(trace: Trace) -> float | None:
    """The IoU of a reply's intervals with the clue, as in CG-Bench; None if its parser finds no intervals in
    the reply."""
    written = written_intervals(trace.final.raw) if trace.final is not None else None
    return None if written is None else interval_iou(written, trace.evidence)


def share_at_iou(ious: Sequence[tuple[float, bool]]) -> float | None:
    """The share of questions answered right with an IoU of at least a threshold: mean over THRESHOLDS."""
    if not ious:
        return None
    hits = sum(iou >= threshold and right for threshold in THRESHOLDS for iou, right in ious)
    return hits / (len(ious) * len(THRESHOLDS))


def unread_share(traces: Sequence[Trace]) -> float | None:
    """The share of answered questions whose replies have no interval for our parser; None without
    questions."""
    return _mean([not _read(trace) for trace in traces if _is_grounding(trace) and trace.final is not None])


def _of_written_intervals(metric: Metric, protocol: Protocol, traces: Sequence[Trace]) -> MetricValue:
    """A metric over the intervals in replies. A reply without intervals has an IoU of 0; officially it is
    left out of the denominator, for metrics of kind grounding only if the protocol says so."""
    marked = [trace for trace in traces if _is_grounding(trace) and counts(metric, trace.groups)]
    if metric.kind == "grounding":
        robust = [_iou(trace, _read(trace)) for trace in marked]
        official = [
            _iou(trace, trace.official_intervals or ())
            for trace in marked
            if trace.official_intervals or protocol.official_unparsed == "wrong"
        ]
    else:
        # CG-Bench's scripts have their own formula and reader.
        robust = [interval_iou(_read(trace), trace.evidence) for trace in marked]
        official = [iou for trace in marked if (iou := written_iou(trace)) is not None]
    ours, theirs = (_over(metric, [(iou, True) for iou in ious]) for ious in (robust, official))
    return MetricValue(ours, theirs, len(marked))


def _over(metric: Metric, ious: Sequence[tuple[float, bool]]) -> float | None:
    """The metric over the IoU of each question, and whether its answer is right."""
    if metric.kind in ("recall_at_iou", "accuracy_at_iou"):
        needs_right = metric.kind == "accuracy_at_iou"
        return share_at_iou([(iou, right or not needs_right) for iou, right in ious])
    return _mean([iou if metric.at is None else iou >= metric.at for iou, _ in ious])


def _is_grounding(trace: Trace) -> bool:
    return bool(trace.evidence) and scoring.is_answerable(trace)


def _read(trace: Trace) -> Sequence[Sequence[float]]:
    return () if trace.final is None else extract_intervals(trace.final.raw)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# ---- grades (MMBench-Video, CG-Bench's open questions) ----------------------------------------------------


def _of_grades(metric: Metric, traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]) -> MetricValue:
    """The mean grade over open questions, or for kind "judged" the share that the judge graded 1. A question
    without an answer or a parsed grade counts 0, and is left out of `valid`. None if nothing is graded."""
    open_traces = [
        trace
        for trace in traces
        for _ in range(_times_counted(metric, trace.groups))
        if trace.reference is not None
    ]
    n = len(open_traces)
    graded = [grades[trace.question_id] for trace in open_traces if trace.question_id in grades]
    # Before `videopro benchmarks judge` has run, a 0 would look like a result.
    if not graded:
        return MetricValue(None, None, n)
    robust = [grade.robust for grade in graded if grade.robust is not None]
    official = [grade.official for grade in graded if grade.official is not None]
    if metric.kind == "judged":
        # run/stat_with_key.py of CG-Bench/CG-Bench divides by the replies that it can read.
        return MetricValue(robust.count(1) / n, _mean([grade == 1 for grade in official]), n)
    # VLMEvalKit has -1 for what it cannot read, and counts a negative grade like it.
    official = [grade for grade in official if grade >= 0]
    return MetricValue(sum(robust) / n, sum(official) / n, n, _mean(robust), _mean(official))


def _times_counted(metric: Metric, groups: Mapping[str, str]) -> int:
    """How often a question counts: once, but for a single dimension as often as the question lists it."""
    if metric.kind == "grade" and len(metric.of) == 1:
        return groups.get(metric.over, "").split(GROUP_SEPARATOR).count(metric.of[0])
    return int(counts(metric, groups))


# ---- sets of questions (Video-MME-v2) ---------------------------------------------------------------------


def _of_sets(
    metric: Metric,
    scores: Sequence[QuestionScore],
    traces: Mapping[str, Trace],
    right: Callable[[QuestionScore], bool],
) -> tuple[float | None, int]:
    """The mean score of the sets, 0 to 1, and the number of their questions. A set counts if all its
    questions have a score, and belongs to the groups of its last question."""
    sets: dict[str, dict[int, tuple[QuestionScore, SetMember]]] = {}
    for score in scores:
        if (member := traces[score.question_id].member) is not None:
            sets.setdefault(member.set, {})[member.place] = (score, member)
    values, questions = [], 0
    for members in sets.values():
        in_order = [members[place] for place in sorted(members)]
        last, member = in_order[-1]
        # A set with an unscored question has no score: the official one needs all four.
        if len(in_order) == member.size and counts(metric, last.groups):
            values.append(set_score([right(score) for score, _ in in_order], member.chain))
            questions += len(in_order)
    return _mean(values), questions


def set_score(right: Sequence[bool], chain: Sequence[int] = ()) -> float:
    """The score of one set, 0 to 1. `chain`: the number of questions on each of its levels, or empty.

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


def _iou(trace: Trace, intervals: Sequence[Sequence[float]]) -> float:
    """The IoU of the intervals with the evidence. For one interval each, it uses lmms-eval's formula, whose
    union is the time from the first start to the last end."""
    if not len(intervals) == len(trace.evidence) == 1:
        return interval_iou(intervals, trace.evidence)
    # `interval_iou` may differ in the last digit, which decides at a threshold.
    (first,), (second,) = intervals, trace.evidence
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
