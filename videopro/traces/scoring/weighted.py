"""Weighted averages of accuracies over benchmarks (Table 1's last column) or over the tasks of one (MLVU's
M-Avg), with intervals clustered by video.

The average is linear in the question scores, so its variance is that of the sum of the videos' contributions
(Liang and Zeger, 1986, as in `videopro.traces.scoring.intervals`). With a single part of weight 1 these are
`scoring.accuracy` and `scoring.paired_difference`. Pure functions; videos of different benchmarks must have
different names.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from videopro.traces.scoring.intervals import t975, wilson
from videopro.traces.scoring.metrics import Accuracy, Difference, QuestionScore

WeightedPart = tuple[float, Sequence[QuestionScore]]
"""A weight, and the questions whose accuracy it weights. The weights must add up to 1."""


def weighted_accuracy(parts: Sequence[WeightedPart]) -> Accuracy:
    """The weighted mean of the parts' accuracies with a 95 % interval.

    The variance, at least that of independent questions, determines the effective number of questions for a
    Wilson interval with Student's t. A question may be in several parts. (None, None) if a part has no
    questions.
    """
    _check(weight for weight, _ in parts)
    if not parts or not all(records for _, records in parts):
        return Accuracy(None, None, 0, 0)
    values = [
        (weight, [(record.video, float(record.correct)) for record in records]) for weight, records in parts
    ]
    share, variance, videos = _mean(values)
    n = len({record.question_id for _, records in parts for record in records})
    if videos == 1:
        return Accuracy(share, (0.0, 1.0), n, 1)
    independent = 0.0
    for weight, scored in values:
        mean = sum(value for _, value in scored) / len(scored)
        independent += weight**2 * mean * (1 - mean) / len(scored)
    # All correct or all wrong: the variance cannot be estimated, so each video counts as one observation.
    effective = float(videos) if independent == 0 else share * (1 - share) / max(variance, independent)
    return Accuracy(share, wilson(share, effective, t975(videos - 1)), n, videos)


def weighted_difference(
    pairs: Sequence[tuple[float, Sequence[QuestionScore], Sequence[QuestionScore]]],
) -> Difference:
    """The weighted mean of the first run's accuracies minus the second's, on the questions of both, with a
    95 % interval. None if a part has no common question."""
    _check(weight for weight, _, _ in pairs)
    values = []
    common: set[str] = set()
    for weight, first, second in pairs:
        by_id = {record.question_id: record for record in second}
        both = [record for record in first if record.question_id in by_id]
        common |= {record.question_id for record in both}
        gaps = [(record.video, float(record.correct - by_id[record.question_id].correct)) for record in both]
        values.append((weight, gaps))
    if not values or not all(scored for _, scored in values):
        return Difference(None, None, 0, 0)
    mean, variance, videos = _mean(values)
    n = len(common)
    if videos == 1:
        return Difference(mean, (-1.0, 1.0), n, 1)
    if len({value for _, scored in values for _, value in scored}) == 1:
        half = 1 - 0.05 ** (1 / videos)
    else:
        half = t975(videos - 1) * math.sqrt(variance)
    return Difference(mean, (max(-1.0, mean - half), min(1.0, mean + half)), n, videos)


def _check(weights: Iterable[float]) -> None:
    total = sum(weights)
    if not math.isclose(total, 1.0):
        raise ValueError(f"The weights of an average must add up to 1, not {total}.")


def _mean(values: Sequence[tuple[float, Sequence[tuple[str, float]]]]) -> tuple[float, float, int]:
    """The weighted mean, its cluster-robust variance and the number of videos."""
    share = 0.0
    added: dict[str, float] = defaultdict(float)
    for weight, scored in values:
        mean = sum(value for _, value in scored) / len(scored)
        share += weight * mean
        for video, value in scored:
            added[video] += weight * (value - mean) / len(scored)
    count = len(added)
    factor = count / (count - 1) if count > 1 else 1.0
    return share, factor * sum(part**2 for part in added.values()), count
