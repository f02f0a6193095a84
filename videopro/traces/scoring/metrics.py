"""Metrics over question scores: accuracy with intervals, groups, official accuracy, calibration.

Questions about one video are correlated, so intervals are clustered by video. Pure functions.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol, TypeVar

from videopro.traces.scoring.intervals import (
    Interval,
    clustered_interval,
    mean_interval,
    shown_interval,
    t975,
    wilson,
)

# Joins the names of a question that is in several groups of one kind, as in {"ability": "ER | TG"}.
GROUP_SEPARATOR = " | "
TEN_BINS = tuple(i / 10 for i in range(11))


@dataclass(frozen=True)
class QuestionScore:
    """The score of one question.

    `correct`: by our robust answer parser; an unparsed reply is wrong. `official_correct`: by the benchmark's
    own parser, None if that cannot read the reply. `confidence`: 0 to 1 (Eq. 2), 0 if unparsed. `groups`: the
    question's groups, for example {"family": "count", "duration": "long"}, several of one kind joined by
    GROUP_SEPARATOR. Raises ValueError for inconsistent values.
    """

    question_id: str
    video: str
    correct: bool
    official_correct: bool | None
    unparsed: bool
    confidence: float
    groups: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"{self.question_id}: confidence must be from 0 to 1, not {self.confidence}.")
        if self.unparsed and (self.correct or self.confidence > 0):
            raise ValueError(f"{self.question_id}: an unparsed reply is wrong and has confidence 0.")


@dataclass(frozen=True)
class Accuracy:
    """A share of correct answers with its 95 % interval; both are None if there are no questions."""

    accuracy: float | None
    ci95: tuple[float, float] | None
    n: int
    """Number of questions."""
    clusters: int
    """Number of videos they are about."""

    @property
    def shown_ci95(self) -> Interval | None:
        """The interval for a table or a figure: None if it is over too few videos to say anything."""
        return shown_interval(self.ci95, self.clusters)


@dataclass(frozen=True)
class Bin:
    """The questions with low <= confidence < high (the last bin includes 1.0)."""

    low: float
    high: float
    mean_confidence: float | None
    accuracy: Accuracy


def accuracy(records: Sequence[QuestionScore], *, distinct: int | None = None) -> Accuracy:
    """Accuracy with a 95 % interval clustered by video; see `clustered_interval`. `distinct`: the number of
    different questions, if runs of several seeds answered each more than once."""
    return _share(records, lambda record: record.correct, distinct)


def official_accuracy(
    records: Sequence[QuestionScore], *, unparsed: Literal["wrong", "left out"]
) -> Accuracy:
    """Accuracy by the benchmark's own parser; replies that it cannot read are wrong or left out.

    Video-MME's scorer leaves them out; where a scorer draws a random option, they count as wrong here.
    """
    if unparsed not in ("wrong", "left out"):
        raise ValueError(f"unparsed must be 'wrong' or 'left out', not {unparsed!r}.")
    if unparsed == "left out":
        # A reply that the official scorer cannot read is no answer to it.
        records = [record for record in records if record.official_correct is not None]
    return _share(records, lambda record: bool(record.official_correct))


def group_accuracy(records: Sequence[QuestionScore]) -> dict[str, dict[str, Accuracy]]:
    """Accuracy per group: {"family": {"count": ..., "order": ...}, "duration": {...}}, names in order. A
    question in several groups of a kind counts in each."""
    return {
        kind: {name: accuracy(members) for name, members in parts.items()}
        for kind, parts in grouped(records).items()
    }


class _InGroups(Protocol):
    @property
    def groups(self) -> Mapping[str, str]: ...


# Scores of letters, or of answers in words.
ScoreT = TypeVar("ScoreT", bound=_InGroups)


def grouped(records: Sequence[ScoreT]) -> dict[str, dict[str, list[ScoreT]]]:
    """The records of each group, kinds and names in order."""
    members: dict[tuple[str, str], list[ScoreT]] = defaultdict(list)
    for record in records:
        for kind, names in record.groups.items():
            for name in names.split(GROUP_SEPARATOR):
                members[kind, name].append(record)
    kinds: dict[str, dict[str, list[ScoreT]]] = {}
    for kind, name in sorted(members):
        kinds.setdefault(kind, {})[name] = members[kind, name]
    return kinds


def macro_accuracy(groups: Mapping[str, Accuracy]) -> float | None:
    """The unweighted mean of the groups' accuracies (MLVU's M-Avg over tasks); None without any."""
    shares = [group.accuracy for group in groups.values() if group.accuracy is not None]
    return sum(shares) / len(shares) if shares else None


def unparsed_rate(records: Sequence[QuestionScore]) -> float | None:
    """The share of questions whose reply could not be parsed; None without questions."""
    return sum(record.unparsed for record in records) / len(records) if records else None


def coverage(readable: Collection[str], videos: Collection[str]) -> float | None:
    """The share of a benchmark's videos that were found and readable; None if it lists none."""
    distinct = set(videos)
    return len(distinct & set(readable)) / len(distinct) if distinct else None


@dataclass(frozen=True)
class Difference:
    """The accuracy of the first of two runs minus the accuracy of the second, on the questions of both."""

    difference: float | None
    """-1 to 1; None without a common question."""
    ci95: tuple[float, float] | None
    n: int
    """Number of questions."""
    clusters: int
    """Number of videos they are about."""

    @property
    def shown_ci95(self) -> Interval | None:
        """The interval for a table or a figure: None if it is over too few videos to say anything."""
        return shown_interval(self.ci95, self.clusters)


def paired_difference(first: Sequence[QuestionScore], second: Sequence[QuestionScore]) -> Difference:
    """The difference of two accuracies, question by question, with a 95 % interval clustered by video; see
    `mean_interval`."""
    by_id = {record.question_id: record for record in second}
    gaps: dict[str, list[int]] = defaultdict(list)
    for record in first:
        if record.question_id in by_id:
            gaps[record.video].append(record.correct - by_id[record.question_id].correct)
    n, count = sum(map(len, gaps.values())), len(gaps)
    if not n:
        return Difference(None, None, 0, 0)
    mean = sum(map(sum, gaps.values())) / n
    return Difference(mean, mean_interval(gaps, low=-1.0, high=1.0), n, count)


# ---- calibration ------------------------------------------------------------------------------------------


def reliability(records: Sequence[QuestionScore], edges: Sequence[float] = TEN_BINS) -> tuple[Bin, ...]:
    """Accuracy per confidence bin, as in the paper's Fig. 2. `edges` must rise from 0 to 1."""
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"The edges of confidence bins must ascend from 0 to 1, not {tuple(edges)}.")
    bins = []
    for low, high in pairwise(edges):
        inside = [r for r in records if low <= r.confidence < high or (high == 1 == r.confidence)]
        mean = sum(r.confidence for r in inside) / len(inside) if inside else None
        bins.append(Bin(low, high, mean, accuracy(inside)))
    return tuple(bins)


def expected_calibration_error(
    records: Sequence[QuestionScore], edges: Sequence[float] = TEN_BINS
) -> float | None:
    """The mean gap between confidence and accuracy over bins, weighted by questions (Guo et al., 2017).

    Bins include their lower edge, like the threshold tau (confident means c >= tau). None without questions.
    """
    if not records:
        return None
    gaps = 0.0
    for part in reliability(records, edges):
        if part.mean_confidence is not None and part.accuracy.accuracy is not None:
            gaps += part.accuracy.n * abs(part.accuracy.accuracy - part.mean_confidence)
    return gaps / len(records)


def auroc(records: Sequence[QuestionScore]) -> float | None:
    """How often a correct answer is more confident than a wrong one, ties counting half (Mann-Whitney).

    None if all answers are correct or all are wrong.
    """
    right, wrong = ([r.confidence for r in records if r.correct is correct] for correct in (True, False))
    return area_under_roc(right, wrong)


def area_under_roc(above: Sequence[float], below: Sequence[float]) -> float | None:
    """How often a number of `above` is larger than one of `below`, ties counting half; None if either is
    empty."""
    if not above or not below:
        return None
    ranked = sorted(below)
    wins = sum(bisect_left(ranked, each) + bisect_right(ranked, each) for each in above)
    return wins / (2 * len(above) * len(below))


def _share(
    records: Sequence[QuestionScore], right: Callable[[QuestionScore], bool], distinct: int | None = None
) -> Accuracy:
    if len({record.question_id for record in records}) < len(records):
        raise ValueError("A question is scored twice; pass each question once.")
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        outcomes[record.video].append(right(record))
    if not records:
        return Accuracy(None, None, 0, 0)
    share = sum(map(sum, outcomes.values())) / len(records)
    interval = clustered_interval(outcomes, distinct=distinct)
    return Accuracy(share, interval, len(records), len(outcomes))


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
