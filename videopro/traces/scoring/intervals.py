"""95 % confidence intervals for accuracies. Pure functions over numbers.

Questions about one video are correlated, so variances are clustered by video.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

MIN_VIDEOS = 5
"""With fewer videos an interval clustered by video is so wide, up to "0 to 100", that tables show none."""
FEW_VIDEOS_NOTE = "-: no interval from fewer than five videos."
"""Explains a missing interval below a table."""

Interval: TypeAlias = Sequence[float]


def shown_interval(interval: Interval | None, videos: int) -> Interval | None:
    """The interval if it covers enough videos to be shown; see MIN_VIDEOS."""
    return interval if videos >= MIN_VIDEOS else None


def clustered_interval(
    outcomes: Mapping[str, Sequence[bool]], *, distinct: int | None = None
) -> tuple[float, float]:
    """A 95 % interval for a share of correct answers, given each cluster's outcomes.

    The variance of the mean is cluster-robust (Liang and Zeger, 1986, with the factor G / (G - 1); for the
    evaluation of language models: Miller, "Adding Error Bars to Evals", 2024). From it follow the design
    effect, the effective number of questions, and a Wilson interval with Student's t on G - 1 degrees of
    freedom. Unlike mean +- 1.96 SE it stays within 0..1 and keeps its coverage near 0 and 1 and with few
    videos (Korn and Graubard, 1998; Dean and Pagano, 2015). A design effect below 1 counts as 1. If all
    answers are correct, or all are wrong, it cannot be estimated: each video then counts as one observation,
    the worst case. A single cluster gives (0, 1). At most `distinct` answers count as independent; unset: no
    limit.
    """
    n = sum(len(cluster) for cluster in outcomes.values())
    count = len(outcomes)
    if n == 0 or not all(outcomes.values()):
        raise ValueError("An interval needs at least one outcome in every cluster.")
    if count == 1:
        return 0.0, 1.0
    effect = design_effect(outcomes)
    if effect is None:
        effective = float(count)
    else:
        effective = min(n / max(effect, 1.0), n if distinct is None else distinct)
    return wilson(sum(map(sum, outcomes.values())) / n, effective, t975(count - 1))


def design_effect(outcomes: Mapping[str, Sequence[bool]]) -> float | None:
    """By how much clusters raise the variance of a share of correct answers over that of independent ones.

    None if it cannot be estimated: for one cluster, or if all answers are correct, or all are wrong.
    """
    n, count = sum(map(len, outcomes.values())), len(outcomes)
    share = sum(map(sum, outcomes.values())) / n
    if count == 1 or share in (0, 1):
        return None
    residuals = (sum(cluster) - share * len(cluster) for cluster in outcomes.values())
    robust = count / (count - 1) * sum(residual**2 for residual in residuals) / n**2
    return robust / (share * (1 - share) / n)


def mean_interval(values: Mapping[str, Sequence[float]], *, low: float, high: float) -> tuple[float, float]:
    """A 95 % interval for the mean of values in low..high, given each cluster's values.

    The variance of the mean is cluster-robust with the factor G / (G - 1) (Liang and Zeger, 1986; for paired
    comparisons of models: Miller, "Adding Error Bars to Evals", 2024), with Student's t on G - 1 degrees of
    freedom. If all values are equal, their variance cannot be estimated: the half width is then the largest
    probability of another value at which seeing none in G clusters still has 5 % probability. A single
    cluster gives (low, high).
    """
    n, count = sum(map(len, values.values())), len(values)
    if n == 0 or not all(values.values()):
        raise ValueError("An interval needs at least one value in every cluster.")
    if count == 1:
        return low, high
    mean = sum(map(sum, values.values())) / n
    if len({value for cluster in values.values() for value in cluster}) == 1:
        half = 1 - 0.05 ** (1 / count)
    else:
        spread = sum((sum(cluster) - mean * len(cluster)) ** 2 for cluster in values.values())
        half = t975(count - 1) * math.sqrt(count / (count - 1) * spread) / n
    return max(low, mean - half), min(high, mean + half)


def wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score interval (1927) for a share of n observations, with the quantile z."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def t_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval for the mean of the population that the values were drawn from; None for fewer
    than two values."""
    if len(values) < 2:
        return None
    half = t975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return mean - half, mean + half


@lru_cache(maxsize=4096)
def t975(df: int) -> float:
    """The 97.5 % quantile of Student's t, by bisection of its exact distribution for whole `df`."""
    low, high = 1.9, 13.0  # the quantile falls from 12.71 (df = 1) to 1.96
    # Each step halves the interval: after 60 it is below what a double holds.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, df) < 0.95 else (low, middle)
    return (low + high) / 2


def t_within(t: float, df: int) -> float:
    """P(|T| < t) of Student's t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = df % 2
    term = cosine if odd else 1.0
    total = term if df > 1 else 0.0
    for k in range(3 if odd else 2, df - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def percent(share: float | None) -> str:
    """A share as a percentage with one decimal; "-" for None."""
    return "-" if share is None else f"{100 * share:.1f}"


def percent_interval(interval: Sequence[float] | None) -> str:
    """An interval of shares as percentages; "-" for None."""
    return "-" if interval is None else f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
