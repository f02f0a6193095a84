"""Temporal grounding: a reply says when something happens, and is compared with the annotated times."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.benchmarks.intervals import interval_iou, pair_iou
from videopro.benchmarks.protocol import Metric, Protocol, counts
from videopro.question import extract_intervals
from videopro.traces import Trace, scoring


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
