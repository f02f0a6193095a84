"""Risk against coverage: by hand, by other implementations' values, and by worlds whose risk is known."""

import random
from collections.abc import Iterator

import pytest

from videopro.traces.scoring import QuestionScore, area_under_risk, risk_curve, widest
from videopro.traces.scoring.abstention import risk_bound


def scored(number: int, video: str, correct: bool, confidence: float) -> QuestionScore:
    return QuestionScore(str(number), video, correct, None, False, confidence)


def calibrated(pairs: list[tuple[float, int]]) -> list[QuestionScore]:
    return [scored(i, f"v{i}", bool(right), confidence) for i, (confidence, right) in enumerate(pairs)]


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    """R: binom.test(3, 100)$conf.int[2], binom.test(9, 20)$conf.int[2]; without an error 1 - miss^(1/n)."""
    assert risk_bound(3, 100, 0.025) == pytest.approx(0.08517605)
    assert risk_bound(9, 20, 0.025) == pytest.approx(0.6847219)
    assert risk_bound(0, 59, 0.05) == pytest.approx(1 - 0.05 ** (1 / 59))
    assert (risk_bound(4, 4, 0.05), risk_bound(1, 1, 0.05)) == (1.0, 1.0)


def test_the_area_is_the_mean_risk_and_ties_count_as_in_any_order() -> None:
    """Most confident first right, wrong, right, wrong: the risks are 0, 1/2, 1/3, 1/2. Of two that are equal,
    one right, the risks are 1/2 and 1/2: the mean of 0, 1/2 and of 1, 1/2 is 1/2 too."""
    assert area_under_risk(calibrated([(0.9, 1), (0.8, 0), (0.7, 1), (0.6, 0)])) == pytest.approx(4 / 12)
    assert area_under_risk(calibrated([(0.5, 1), (0.5, 0)])) == pytest.approx(0.5)
    assert area_under_risk([]) is None


def test_a_curve_by_hand() -> None:
    """Ten answers about ten videos, the seven surest right. Equal confidences are answered together; with one
    answer for each video there is nothing to correct, so that each bound is the binomial's at 0.05 / 10."""
    confidences = [1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    records = [scored(i, f"v{i}", i < 7, each) for i, each in enumerate(confidences)]
    curve = risk_curve(records)
    assert [point.answered for point in curve] == [10, 9, 8, 7, 6, 5, 4, 3, 2, 2]
    assert [point.errors for point in curve] == [3, 2, 1, 0, 0, 0, 0, 0, 0, 0]
    assert [point.threshold for point in curve[:4]] == [0.2, 0.3, 0.4, 0.5]
    # The design effect of single answers is n / (n - 1): 9, 8, 7 and, at the largest so far, 6 count.
    assert curve[3].bound == pytest.approx(1 - 0.005 ** (1 / 6))
    assert widest(curve, 0.6) == curve[3]
    assert widest(curve, 0.5) is None


def world(draw: random.Random, videos: int, each: int, shared: bool) -> Iterator[QuestionScore]:
    """Answers that are wrong with the probability 1 - confidence; `shared`: all about a video together."""
    for video in range(videos):
        fates = [draw.random()] * each if shared else [draw.random() for _ in range(each)]
        for number, fate in enumerate(fates):
            sure = draw.random()
            yield scored(video * each + number, f"v{video}", fate < sure, sure)


@pytest.mark.parametrize(("videos", "each", "shared"), [(300, 1, False), (60, 5, False), (60, 5, True)])
def test_the_risk_is_kept_in_as_many_worlds_as_promised(videos: int, each: int, shared: bool) -> None:
    """Confidences are uniform, so that the true risk from a threshold t on is (1 - t) / 2. Of 100 worlds, 5 %
    may exceed what was chosen; 12 have a probability of 0.4 %. The share of errors itself, without a bound,
    exceeds it in far more."""
    draw, chosen = random.Random(7), 0.3
    kept, naive = [], []
    for _ in range(100):
        curve = risk_curve([*world(draw, videos, each, shared)])
        kept += [point.threshold] if (point := widest(curve, chosen)) else []
        naive += [next(point.threshold for point in curve if point.errors <= chosen * point.answered)]
    exceeded, naively = (sum((1 - each) / 2 > chosen for each in those) for those in (kept, naive))
    assert exceeded < 12 < naively
    # It is no guarantee by silence.
    assert len(kept) > (10 if shared else 75)
