"""What reports are based on: averages with intervals, and what a run would record under other settings."""

from typing import Any

import numpy as np
import pytest

from tests.support.report_world import FALLBACK, direct_round, program, trace, unreadable
from videopro.question import Answer
from videopro.report.runs import sampling_of
from videopro.traces import (
    AnswerRule,
    Trace,
    rescore_at_tau,
    rescore_before_refinement,
    without_stored_rounds,
)
from videopro.traces.scoring import QuestionScore, weighted_accuracy, weighted_difference
from videopro.traces.scoring import metrics as scoring

# ---- averages --------------------------------------------------------------------------------------------


def scored(name: str, video: str, right: int) -> QuestionScore:
    return QuestionScore(name, video, bool(right), bool(right), False, 0.5)


def wilson_by_roots(share: float, n: float, z: float) -> list[float]:
    """Both p with (p - share)^2 = z^2 p (1 - p) / n, the ends of Wilson's interval."""
    return sorted(np.roots([1 + z**2 / n, -2 * share - z**2 / n, share**2]).real.tolist())


def test_a_mean_over_tasks_by_hand() -> None:
    """Task one: 2 of 3 right, task two: 1 of 2; video v1 has questions in both. What videos add to the mean:
    v1 (1/3 - 2/3) / 6 - (1/2) / 4 = -13/72, v2 (1/3) / 6 = 4/72, v3 (1/2) / 4 = 9/72."""
    first = [scored("a", "v1", 1), scored("b", "v1", 0), scored("c", "v2", 1)]
    second = [scored("d", "v1", 0), scored("e", "v3", 1)]
    found = weighted_accuracy([(0.5, first), (0.5, second)])
    assert found.accuracy == pytest.approx(7 / 12)
    assert (found.n, found.clusters) == (5, 3)
    variance = 3 / 2 * (13**2 + 4**2 + 9**2) / 72**2
    independent = 0.25 * (2 / 9) / 3 + 0.25 * 0.25 / 2
    assert variance > independent
    # Student's t with 2 degrees of freedom is 4.302653 in every table.
    expected = wilson_by_roots(7 / 12, (7 / 12) * (5 / 12) / variance, 4.302653)
    assert found.ci95 == pytest.approx(tuple(expected), abs=1e-5)


def test_a_mean_difference_by_hand() -> None:
    """Gaps 1 and 0 on two videos of the first part (mean 1/2), 0 and -1 on two of the second (mean -1/2):
    mean 0; each video is 1/2 from its part's mean and adds 1/8 with its sign."""
    right, wrong = [scored("a", "v1", 1), scored("b", "v2", 1)], [scored("a", "v1", 0), scored("b", "v2", 1)]
    second = [scored("c", "w1", 0), scored("d", "w2", 0)], [scored("c", "w1", 0), scored("d", "w2", 1)]
    found = weighted_difference([(0.5, right, wrong), (0.5, *second)])
    assert found.difference == pytest.approx(0.0)
    half = 3.182446 * (4 / 3 * 4 * (1 / 8) ** 2) ** 0.5  # t with 3 degrees of freedom
    assert found.ci95 == pytest.approx((-half, half), abs=1e-5)


def test_averages_without_data_are_undefined() -> None:
    assert weighted_accuracy([(0.5, [scored("a", "v", 1)]), (0.5, [])]).accuracy is None
    assert weighted_difference([(1.0, [scored("a", "v", 1)], [scored("b", "v", 1)])]).difference is None
    assert weighted_accuracy([(1.0, [scored("a", "v", 1)])]).ci95 == (0.0, 1.0)
    same = [scored(f"q{i}", f"v{i}", 1) for i in range(5)]
    assert weighted_accuracy([(1.0, same)]).ci95 == pytest.approx(scoring.accuracy(same).ci95)
    alike = scoring.paired_difference(same, same).ci95
    assert weighted_difference([(1.0, same, same)]).ci95 == pytest.approx(alike)
    with pytest.raises(ValueError, match="add up to 1"):
        weighted_accuracy([(0.5, [scored("a", "v", 1)])])


# ---- other settings --------------------------------------------------------------------------------------


LAST = AnswerRule("last-answered", "native")


def unsure(first: float = 0.6, second: float = 0.8) -> Trace:
    """B with `first`, refined to A with `second`; each round 0.5 + 1 s, the video's share 0.25 s."""
    return trace(1, [program("B", first), program("A", second, kind="program_refinement")])


def rescored(trace: Trace, tau: float, rule: AnswerRule = LAST) -> tuple[Trace, Answer]:
    found = rescore_at_tau(trace, tau, rule)
    assert found.final is not None
    return found, found.final


def test_a_lower_tau_takes_back_a_refinement() -> None:
    kept, answer = rescored(unsure(), 0.75)
    assert (answer.letter, kept.refined, kept.selected, len(kept.rounds)) == ("A", 1, 1, 2)
    assert kept.cost.seconds == pytest.approx(3.25)
    # 0.6 is confident where tau is 0.6 (inclusive): the first answer stands, and costs one round.
    lower, answer = rescored(unsure(), 0.6)
    assert (answer.letter, answer.confidence, lower.refined, lower.selected) == ("B", 0.6, 0, 0)
    assert (len(lower.rounds), lower.official) == (1, None)
    assert lower.cost.seconds == pytest.approx(1.75)
    assert lower.cost.calls == pytest.approx(3.0)
    assert rescored(unsure(), 0.61)[1] == kept.final
    # An error is one under every tau.
    assert rescore_at_tau(unreadable(1), 0.9, LAST) == unreadable(1)


def test_a_higher_tau_takes_what_was_stored() -> None:
    """A run with tau 0.5 and refine_below 0.9 let 0.6 stand and stored the refinement."""
    stored = trace(1, [program("B", 0.6), program("A", 0.8)], selected=0, refined=0)
    assert stored.final.letter == "B"
    raised, answer = rescored(stored, 0.75)
    assert (answer.letter, raised.refined) == ("A", 1)
    # As recorded, the stored round costs nothing.
    own = without_stored_rounds(stored)
    assert len(own.rounds) == 1
    assert own.cost.seconds == pytest.approx(1.75)
    assert without_stored_rounds(unsure()) == unsure()
    both = trace(1, [program("B", 0.6), program("A", 0.5)])
    best, answer = rescored(both, 0.9, AnswerRule("best"))
    assert (answer.letter, best.selected, best.refined) == ("B", 0, 1)


def test_a_fallback_stays_under_every_tau() -> None:
    """No program answered, so the direct answer was asked for; 0.25 + 2 * 1.5 + 1 s."""
    rounds = [program(None), program(None, kind="bug_fix"), direct_round("A", 0.4, kind=FALLBACK)]
    fallen = trace(1, rounds, selected=2, refined=1)
    for tau in (0.0, 0.4, 0.9):
        found, answer = rescored(fallen, tau)
        assert (answer.letter, found.refined, found.selected, len(found.rounds)) == ("A", 1, 2, 3)
        assert found.cost.seconds == pytest.approx(4.25)
    assert without_stored_rounds(fallen) == fallen
    first = rescore_before_refinement(fallen)
    assert (first.final.letter, first.cost.seconds) == (None, pytest.approx(1.75))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ({"name": "native", "frames": 16}, ""),
        ({"planner": "pocket-teacher", "teacher": {"version": 4}, "temperature": 0.7, "top_p": 1.0}, ""),
        ({"planner": "self", "temperature": 0.0, "top_p": 1.0}, "greedy"),
        ({"planner": "api:m@http://h/v1", "temperature": 0.7, "top_p": 1.0}, "sampled at 0.7"),
        ({"planner": "self", "temperature": 1.0, "top_p": 0.95}, "sampled at 1, top-p 0.95"),
        ({"name": "vca", "temperature": 0.5}, "sampled at 0.5"),
    ],
)
def test_a_run_says_how_its_programs_were_sampled(method: dict[str, Any], said: str) -> None:
    assert sampling_of(method) == said
