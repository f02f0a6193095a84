"""Whether differences between ways of training hold over seeds: Student's t, and Holm's correction over all
pairs that a page speaks of."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from videopro.traces.scoring.intervals import t_within


def t_test(values: Sequence[float]) -> float:
    """The two-sided p of Student's t for values drawn from a population with mean 0. Raises ValueError for
    values that are all equal, or fewer than two: they say nothing about how much values vary."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    if spread == 0:
        raise ValueError(f"a t test needs two different values or more, not {list(values)}")
    return 1 - t_within(abs(statistics.fmean(values)) * math.sqrt(len(values)) / spread, len(values) - 1)


def holm(ps: Sequence[float]) -> list[float]:
    """These p, corrected by Holm's step-down method (1979): those at most alpha hold together, with a
    probability of at most alpha that any of them is false."""
    corrected, least = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = least
    return corrected
