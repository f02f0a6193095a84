"""Tests over seeds, against quantiles of Student's t in printed tables and Holm's correction by hand."""

import pytest

from perf.pairs import holm, t_test


@pytest.mark.parametrize(
    ("quantile", "count", "p"),
    [(12.706, 2, 0.05), (4.303, 3, 0.05), (9.925, 3, 0.01), (2.776, 5, 0.05), (1.886, 3, 0.2)],
)
def test_p_at_the_printed_quantiles_of_t(quantile: float, count: int, p: float) -> None:
    """Values whose mean is this many standard errors from 0: of n values of which half are one above and half
    one below the mean (and one on it), the standard error is known."""
    around = [1.0, -1.0] * (count // 2) + [0.0] * (count % 2)
    error = (2 * (count // 2) / (count - 1) / count) ** 0.5
    for sign in (1, -1):
        assert t_test([sign * quantile * error + each for each in around]) == pytest.approx(p, rel=2e-3)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.1, 0.1]])
def test_values_that_do_not_vary_have_no_p(values: list[float]) -> None:
    with pytest.raises(ValueError, match="two different values"):
        t_test(values)


def test_holms_correction_by_hand() -> None:
    # Times 5, 4, 3, 2 and 1 in order, never below a smaller one's, never above 1.
    assert holm([0.04, 0.01, 0.05, 0.02, 0.03]) == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert holm([0.6, 0.9, 0.001]) == pytest.approx([1.0, 1.0, 0.003])
    assert holm([]) == []
