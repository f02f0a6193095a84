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


def test_a_story_that_adds_to_the_share_of_refined_questions_adds_to_the_control() -> None:
    # Two stories of ten questions, of which two and six are refined: a jackknife's difference for each story
    # is what the whole changes without it.
    part = {
        "n": [10.0, 10.0],
        "refined": [2.0, 6.0],
        "first": [6.0, 4.0],
        "final": [7.0, 7.0],
        "second": [8.0, 6.0],
        "surer_of_samples": [7.0, 7.0],
        "first_of_unsure": [0.0, 0.0],
        "final_of_unsure": [0.0, 0.0],
    }
    empty = {name: [0.0, 0.0] for name in part}
    gap, n = findings.refinement(sums(empty, part))["refined over random replacement"]

    def whole(weights: tuple[float, float]) -> float:
        means = {
            name: sum(w * v for w, v in zip(weights, values, strict=True)) for name, values in part.items()
        }
        first, second, share = (means[name] / means["n"] for name in ("first", "second", "refined"))
        return means["final"] / means["n"] - (1 - share) * first - share * second

    assert gap.sum() / n.sum() == pytest.approx(whole((1.0, 1.0)))
    # The derivative by the weight of a story, of a mean of two.
    step = 1e-6
    slope = (whole((1 + step, 1.0)) - whole((1 - step, 1.0))) / (2 * step)
    assert gap[0] / n[0] - whole((1.0, 1.0)) == pytest.approx(2 * slope, abs=1e-6)


def test_findings_pair_seeds_and_take_stories_of_planners_that_are_not_trained() -> None:
    def cell(first: list[float], second: list[float]) -> dict[str, object]:
        part = {
            "n": [10.0, 10.0],
            "refined": [5.0, 5.0],
            **dict.fromkeys(("first", "first_of_unsure", "surer_of_samples"), first),
            **dict.fromkeys(("final", "second", "final_of_unsure"), second),
        }
        return {"test": {"usual": {"gist": {name: [0.0, 0.0] for name in part}, "other": part}}}

    cells = {
        "faultless/0": cell([5.0, 5.0], [6.0, 8.0]),
        "faultless/1": cell([5.0, 5.0], [5.0, 5.0]),
        "grpo/0": cell([6.0, 6.0], []),
        "grpo/1": cell([7.0, 7.0], []),
        "rejection/1": cell([5.0, 6.0], []),
        "rejection/0": cell([5.0, 5.0], []),
        "more-sft/0": cell([5.0, 5.0], []),
    }
    found = findings.findings(cells, "test", "usual")
    over_stories = found["faultless, usual: refined over first"]
    assert (over_stories["of"], over_stories["difference"]) == ("4 stories", 0.1)
    # 0.1 in seed 0, and 0.15 in seed 1; with one seed in common there is no row.
    over_seeds = found["grpo over rejection: first"]
    assert (over_seeds["of"], over_seeds["difference"]) == ("2 seeds", 0.125)
    assert "grpo over more-sft: first" not in found


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
