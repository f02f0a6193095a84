"""Selective prediction: the error of the answers whose confidence reaches a threshold, and bounds for it.

The risk at a coverage is the share of wrong answers among the most confident ones (Geifman and El-Yaniv,
2017). An answer to a question without a right option is wrong. Pure functions over question scores.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from videopro.question import NO_OPTION
from videopro.traces.record import Trace
from videopro.traces.scoring.intervals import design_effect
from videopro.traces.scoring.metrics import Accuracy, QuestionScore, accuracy, area_under_roc
from videopro.traces.scoring.verdicts import official_records_of

COVERAGES = tuple(step / 10 for step in range(10, 0, -1))
MISS = 0.05
"""The probability that any of a curve's bounds is below the true risk."""


@dataclass(frozen=True)
class RiskPoint:
    """The answers with at least a confidence."""

    coverage: float
    """The share of the questions that was sought; equal confidences may make it larger."""
    threshold: float
    """The least confidence."""
    answered: int
    errors: int
    bound: float
    """The highest risk that the errors allow; the bounds of a curve hold together, with probability 1 - MISS.
    """


def answered_at(records: Sequence[QuestionScore], coverage: float) -> list[QuestionScore]:
    """The most confident share of the answers, and those that are as confident as the least of them."""
    ranked = sorted((record.confidence for record in records), reverse=True)
    # A hair less: 0.3 * 10 is above 3.
    threshold = ranked[math.ceil(coverage * len(ranked) - 1e-9) - 1]
    return [record for record in records if record.confidence >= threshold]


def risk_curve(records: Sequence[QuestionScore]) -> tuple[RiskPoint, ...]:
    """The risk at each of COVERAGES, with its bound (Learn then Test over a grid, Angelopoulos et al., 2021).

    Thresholds are quantiles of the confidences, so that the answers above one are a sample of all such
    answers, and their errors binomial. Bonferroni's correction makes the bounds of all coverages hold
    together. Answers about one video are correlated: each bound counts the questions divided by the largest
    design effect so far (Korn and Graubard, 1998). Raises ValueError without records.
    """
    points: list[RiskPoint] = []
    effect = 1.0
    for coverage in COVERAGES:
        answered = answered_at(records, coverage)
        errors = sum(not record.correct for record in answered)
        outcomes: dict[str, list[bool]] = defaultdict(list)
        for record in answered:
            outcomes[record.video].append(record.correct)
        # Without an error it cannot be estimated, and is not smaller for that.
        effect = max(effect, design_effect(outcomes) or 1.0)
        independent = max(1, math.floor(len(answered) / effect))
        bound = risk_bound(
            math.ceil(errors / len(answered) * independent - 1e-9), independent, MISS / len(COVERAGES)
        )
        threshold = min(record.confidence for record in answered)
        points.append(RiskPoint(coverage, threshold, len(answered), errors, bound))
    return tuple(points)


def risk_bound(errors: int, n: int, miss: float) -> float:
    """Clopper and Pearson's upper bound (1934) for a risk of which n answers had so many errors: it is too
    low with probability `miss` at most."""
    if errors >= n:
        return 1.0
    low, high = errors / n, 1.0
    # Each step halves the interval.
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if _at_most(errors, n, middle) <= miss else (middle, high)
    return high


def _at_most(errors: int, n: int, risk: float) -> float:
    """The probability of at most so many errors in n answers."""
    wrong, right, of_all = math.log(risk), math.log1p(-risk), math.lgamma(n + 1)
    return sum(
        math.exp(of_all - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * wrong + (n - k) * right)
        for k in range(errors + 1)
    )


def widest(curve: Sequence[RiskPoint], risk: float) -> RiskPoint | None:
    """The point of the largest coverage whose risk is at most `risk`, by its bound; None if there is none."""
    return next((point for point in curve if point.bound <= risk), None)


def area_under_risk(records: Sequence[QuestionScore]) -> float | None:
    """AURC: the mean risk over all coverages. Equal confidences count as in a random order. None without
    records."""
    total = errors = 0.0
    answered = 0
    ranked = sorted(records, key=lambda record: -record.confidence)
    for _, equal in groupby(ranked, key=lambda record: record.confidence):
        correct = [record.correct for record in equal]
        rate = correct.count(False) / len(correct)
        for _ in correct:
            answered, errors = answered + 1, errors + rate
            total += errors / answered
    return total / answered if answered else None


def error_rate(records: Sequence[QuestionScore]) -> Accuracy:
    """The share of wrong answers, with its 95 % interval clustered by video."""
    right = accuracy(records)
    if right.accuracy is None or right.ci95 is None:
        return right
    low, high = right.ci95
    return Accuracy(1 - right.accuracy, (1 - high, 1 - low), right.n, right.clusters)


def answerable_auroc(traces: Sequence[Trace]) -> float | None:
    """How often the answer to a question that has a right option is more confident than one to a question
    without; None if there is only one kind."""
    records: Mapping[bool, list[float]] = {True: [], False: []}
    has_option = {trace.question_id: trace.gold != NO_OPTION for trace in traces}
    for record in official_records_of(traces):
        records[has_option[record.question_id]].append(record.confidence)
    return area_under_roc(records[True], records[False])
