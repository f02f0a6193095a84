"""The arithmetic of simlib's claims, by hand."""

import numpy as np
import pytest

from perf import simlib_findings as findings


def sums(gist: dict[str, list[float]], other: dict[str, list[float]]) -> dict[str, dict[str, list[float]]]:
    return {"gist": gist, "other": other}


def test_shares_are_weighted_to_a_share_of_questions_about_the_whole() -> None:
    # Two stories: one question about the whole in each, three others in each.
    found = sums({"n": [1, 1], "right": [1, 1]}, {"n": [3, 3], "right": [1, 2]})
    assert findings.mean(found, "right") == pytest.approx(5 / 8)
    assert findings.mean(found, "right", 0.6) == pytest.approx(0.6 * 1 + 0.4 * 0.5)


def test_routing_is_compared_with_chance_and_with_one_mode_for_all() -> None:
    # It looks directly at one question of four, is right in three; looks alone 1 of 4, programs 2 of 4.
    part = {"n": [4.0], "native": [1.0], "first": [3.0], "direct": [1.0], "program": [2.0]}
    empty = {name: [0.0] for name in part} | {"n": [1e-12]}
    gaps = {what: gap[0] / n[0] for what, (gap, n) in findings.routing(sums(empty, part), 0.0).items()}
    assert gaps == pytest.approx(
        {
            "random routing": 0.75 - 0.25 * 0.25 - 0.75 * 0.5,
            "always a program": 0.25,
            "always a look": 0.5,
        }
    )


def test_the_controls_of_refinement_run_as_many_programs() -> None:
    # Ten questions; four are refined: 6 right by the first, 8 at the end; the surer of two samples 7, and the
    # second programs of all 5.
    part = {
        "n": [10.0],
        "refined": [4.0],
        "first": [6.0],
        "final": [8.0],
        "second": [5.0],
        "surer_of_samples": [7.0],
        "first_of_unsure": [1.0],
        "final_of_unsure": [2.0],
    }
    empty = {name: [0.0] for name in part}
    gaps = {what: gap[0] / n[0] for what, (gap, n) in findings.refinement(sums(empty, part)).items()}
    of_two, replaced = 0.6 * 0.6 + 0.4 * 0.7, 0.6 * 0.6 + 0.4 * 0.5
    assert list(gaps.values()) == pytest.approx([0.2, 0.8 - of_two, 0.8 - replaced, 0.1])


def test_a_difference_is_over_seeds() -> None:
    # Two seeds that disagree: Student's t with one degree of freedom, whose p is 1 - 2/pi * atan(t) and whose
    # 97.5 % quantile is tan(0.475 pi).
    ones = np.ones(50)
    found = findings.difference([(ones * 0.1, ones), (ones * 0.3, ones)])
    half = np.tan(0.475 * np.pi) * 0.1
    assert (found["difference"], found["of"]) == (0.2, "2 seeds")
    assert (found["low"], found["high"]) == pytest.approx((0.2 - half, 0.2 + half), abs=1e-4)
    assert found["p"] == pytest.approx(1 - 2 / np.pi * np.arctan(0.2 / 0.1), abs=1e-4)


def test_p_is_corrected_over_all_claims() -> None:
    made = {name: {"p": p} for name, p in (("a", 0.01), ("b", 0.04), ("c", None))}
    found = findings.corrected(made)
    assert [found[name]["holm"] for name in "abc"] == [0.02, 0.04, None]
