"""Numbers from scored questions, against statsmodels, scikit-learn, a simulation and sums done by hand."""

import math

import pytest

from videopro.traces.scoring import (
    Accuracy,
    QuestionScore,
    accuracy,
    auroc,
    clustered_interval,
    coverage,
    expected_calibration_error,
    group_accuracy,
    macro_accuracy,
    official_accuracy,
    reliability,
    unparsed_rate,
)


def scored(
    number: int,
    video: str,
    correct: bool,
    confidence: float = 0.5,
    *,
    official: bool | None = None,
    unparsed: bool = False,
    **groups: str,
) -> QuestionScore:
    return QuestionScore(str(number), video, correct, official, unparsed, confidence, groups)


def records(outcomes: dict[str, list[bool]]) -> list[QuestionScore]:
    pairs = [(video, right) for video, cluster in outcomes.items() for right in cluster]
    return [scored(i, video, right) for i, (video, right) in enumerate(pairs)]


def calibrated(pairs: list[tuple[float, int]]) -> list[QuestionScore]:
    return [scored(i, f"v{i % 3}", bool(right), confidence) for i, (confidence, right) in enumerate(pairs)]


T, F = True, False
UNEVEN = {"a": [T, T, T], "b": [F, F, F, F], "c": [T, F, T], "d": [T, T], "e": [F, F, T], "f": [T]}
EVENED = {"a": [T, F], "b": [T, F], "c": [F, T], "d": [T, F, T]}
MANY = {
    str(i): [bool((i * 7 + j * 3) % 5 < 3 if i % 3 else j != 0) for j in range(1 + i % 4)] for i in range(40)
}


@pytest.mark.parametrize(
    ("outcomes", "share", "low", "high"),
    [
        # statsmodels 0.14: se = OLS(y, 1).fit(cov_type="cluster", use_t=True).bse; n_eff = n / max(1, se^2 /
        # (p (1 - p) / n)); proportion_confint(p n_eff, n_eff, 2 norm.sf(t.ppf(0.975, G - 1)), "wilson")
        (UNEVEN, 0.5625, 0.17438474575314883, 0.8867026269519005),
        (EVENED, 0.5555555555555556, 0.16336949141617407, 0.8889099866606065),  # design effect below 1
        (MANY, 0.6, 0.49886571423875764, 0.6932733417615591),
        # By hand: residuals 1 and -1, robust variance 2 (1 + 1) / 16 = 1/4 = p (1 - p), so n_eff = 1;
        # t = 12.7062 on 1 degree of freedom; half = t / (1 + t^2) sqrt(1/4 + t^2 / 4) = 0.498459.
        ({"a": [T, T], "b": [F, F]}, 0.5, 0.001541, 0.998459),
    ],
)
def test_interval_is_clustered_by_video(
    outcomes: dict[str, list[bool]], share: float, low: float, high: float
) -> None:
    found = accuracy(records(outcomes))
    assert found.accuracy == pytest.approx(share)
    assert found.ci95 == pytest.approx((low, high), abs=1e-6)
    assert (found.n, found.clusters) == (sum(map(len, outcomes.values())), len(outcomes))


def test_all_right_or_all_wrong_counts_videos() -> None:
    """Wilson for 6 of 6 videos with t = 2.5706 on 5 degrees of freedom: 6 / (6 + t^2) = 0.475892."""
    all_right = {str(i): [T, T, T] for i in range(6)}
    all_wrong = {str(i): [F, F, F] for i in range(6)}
    assert accuracy(records(all_right)) == Accuracy(1.0, pytest.approx((0.475892, 1.0), abs=1e-6), 18, 6)
    assert accuracy(records(all_wrong)) == Accuracy(0.0, pytest.approx((0.0, 0.524108), abs=1e-6), 18, 6)


def test_one_video_says_nothing_about_others_and_none_nothing_at_all() -> None:
    assert accuracy(records({"a": [T, T, F, T]})) == Accuracy(0.75, (0.0, 1.0), 4, 1)
    assert accuracy([]) == Accuracy(None, None, 0, 0)


def test_scores_that_cannot_be_are_refused() -> None:
    for confidence in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="confidence"):
            scored(1, "a", True, confidence)
    # A reply that cannot be read is wrong, and without confidence.
    for right, confidence in ((True, 0.0), (False, 0.3)):
        with pytest.raises(ValueError, match="unparsed"):
            scored(1, "a", right, confidence, unparsed=True)
    with pytest.raises(ValueError, match="scored twice"):
        accuracy([scored(1, "a", True), scored(1, "a", True)])
    with pytest.raises(ValueError, match="at least one outcome"):
        clustered_interval({"a": [True], "b": []})
    for edges in ((0,), (0.1, 1), (0, 0.9), (0, 0.5, 0.5, 1), (0, 0.7, 0.3, 1)):
        with pytest.raises(ValueError, match="ascend from 0 to 1"):
            reliability(calibrated(PAIRS), edges)


MIXED = [
    scored(1, "a", True, official=True, family="count", duration="long"),
    scored(2, "a", False, official=None, family="count", duration="long"),
    scored(3, "b", True, official=False, family="order", duration="short"),
    scored(4, "c", True, official=True, family="count", duration="short"),
    scored(5, "c", False, 0.0, official=None, unparsed=True, family="order"),
]


def test_groups() -> None:
    found = group_accuracy(MIXED)
    assert list(found) == ["duration", "family"]
    assert list(found["duration"]) == ["long", "short"]
    count = found["family"]["count"]
    for group, wanted in (
        (count, (pytest.approx(2 / 3), 3, 2)),
        (found["family"]["order"], (0.5, 2, 2)),
        (found["duration"]["short"], (1.0, 2, 2)),
    ):
        assert (group.accuracy, group.n, group.clusters) == wanted
    assert count == accuracy([MIXED[0], MIXED[1], MIXED[3]])
    assert group_accuracy([]) == {}


def test_macro_accuracy_counts_groups_alike() -> None:
    assert macro_accuracy(group_accuracy(MIXED)["family"]) == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert macro_accuracy({}) is None
    assert macro_accuracy({"x": Accuracy(None, None, 0, 0), "y": Accuracy(0.5, (0, 1), 2, 1)}) == 0.5


def test_official_accuracy_with_unparsed_in_and_out() -> None:
    kept = official_accuracy(MIXED, unparsed="wrong")
    left_out = official_accuracy(MIXED, unparsed="left out")
    assert (kept.accuracy, kept.n, kept.clusters) == (pytest.approx(2 / 5), 5, 3)
    assert (left_out.accuracy, left_out.n, left_out.clusters) == (pytest.approx(2 / 3), 3, 3)
    assert official_accuracy([MIXED[1]], unparsed="left out") == Accuracy(None, None, 0, 0)
    with pytest.raises(ValueError, match="'wrong' or 'left out'"):
        official_accuracy(MIXED, unparsed="dropped")  # type: ignore[arg-type]


def test_rates() -> None:
    assert unparsed_rate(MIXED) == pytest.approx(1 / 5)
    assert unparsed_rate([]) is None
    assert coverage(["a", "b", "b", "z"], ["a", "b", "c", "d"]) == 0.5
    assert coverage([], ["a"]) == 0.0
    assert coverage([], []) is None


PAIRS = [(0.1, 0), (0.4, 0), (0.35, 1), (0.8, 1), (0.8, 0), (0.8, 1), (0.2, 0), (0.0, 0), (0.9, 1), (1.0, 1)]


def test_reliability_bins() -> None:
    bins = reliability(calibrated(PAIRS), (0, 0.35, 0.9, 1))
    edges = [(part.low, part.high, part.accuracy.n) for part in bins]
    assert edges == [(0, 0.35, 3), (0.35, 0.9, 5), (0.9, 1, 2)]
    assert [part.accuracy.accuracy for part in bins] == [0.0, pytest.approx(3 / 5), 1.0]
    assert [part.mean_confidence for part in bins] == pytest.approx([0.1, 0.63, 0.95])
    empty = reliability(calibrated([(0.05, 1)]))[5]
    assert (empty.mean_confidence, empty.accuracy.n, empty.accuracy.accuracy) == (None, 0, None)
    # 0.3 and 0.7 are edges that tenths in floating point like to miss.
    exact = [(i / 10, 1) for i in range(11)]
    assert [part.accuracy.n for part in reliability(calibrated(exact))] == [1] * 9 + [2]


def test_expected_calibration_error_by_hand() -> None:
    """Bins [0, .35): |0 - .1| x 3; [.35, .9): |.6 - .63| x 5; [.9, 1]: |1 - .95| x 2; over 10."""
    assert expected_calibration_error(calibrated(PAIRS), (0, 0.35, 0.9, 1)) == pytest.approx(0.055)
    assert expected_calibration_error(calibrated([(1.0, 1), (0.0, 0)])) == 0.0
    assert expected_calibration_error(calibrated([(1.0, 0)])) == 1.0
    assert expected_calibration_error([]) is None


def test_auroc() -> None:
    assert auroc(calibrated(PAIRS)) == pytest.approx(0.88)  # sklearn.metrics.roc_auc_score
    for right, wrong, wanted in ((0.9, 0.1, 1.0), (0.1, 0.9, 0.0), (0.5, 0.5, 0.5)):
        assert auroc(calibrated([(right, 1), (wrong, 0)])) == wanted
    assert auroc(calibrated([(0.5, 1)])) is auroc([]) is None
