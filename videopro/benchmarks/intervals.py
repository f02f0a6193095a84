"""Intersection over union of intervals in time."""

from __future__ import annotations

from collections.abc import Sequence


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
