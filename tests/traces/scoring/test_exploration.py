"""Distances of chosen segments to the evidence, on trajectories written by hand after VCA's Figs. 4 and 9."""

from collections.abc import Sequence

from tests.support.traces import make
from videopro.traces import Execution, Round, Segment, Step, Trace
from videopro.traces.scoring import SegmentChoice, segment_choices


def reward(round: int, start: float, end: float, scores: Sequence[float | None], of: str = "") -> Step:
    """The equal parts of a segment, with their scores."""
    width = (end - start) / len(scores)
    edges = [start + place * width for place in range(len(scores) + 1)]
    parts = tuple(
        Segment(edges[place], edges[place + 1], f"{of}.{place}" if of else str(place), of, score)
        for place, score in enumerate(scores)
    )
    return Step("reward", "reward_model", round, segments=parts)


def choice(round: int, name: str) -> Step:
    return Step("explore", "agent", round, parsed={"segment": name}, segments=(Segment(0, 0, name),))


def trace(evidence: tuple[tuple[float, ...], ...], *steps: Step) -> Trace:
    return make(rounds=(Round("agent", "", execution=Execution("ok", steps=steps)),), evidence=evidence)


# Fig. 4's course on 700 s: 4 has the best score and disappoints; the agent turns back to 1, and then takes
# 1.3 although 1.2 scores higher.
FIGURE_4 = (
    reward(0, 0, 700, (10, 60, 20, 30, 90, 0, 0)),
    choice(0, "4"),
    Step("evict", round=1, args={"times": [1.0]}),
    reward(1, 400, 500, (5, 5, 10, 5, 5, 0, 0), of="4"),
    choice(1, "1"),
    reward(2, 100, 200, (20, 30, 95, 80, 10, 10, 10), of="1"),
    choice(2, "1.3"),
    reward(3, 100 + 300 / 7, 100 + 400 / 7, (100,) * 7, of="1.3"),
    Step("explore", "agent", 3, parsed={"answer": "B"}),
)


def test_several_pieces_of_evidence_count_by_the_nearest() -> None:
    # In 0 and in 6: from 4 it is two segments to 6 and four to 0.
    choices = segment_choices(trace(((10.0, 20.0), (650.0, 660.0)), *FIGURE_4))
    assert [each.distance for each in choices] == [-2, 1, 4]
    # At last the leaves are 0, 1.0 to 1.6, 2, 3, 4.0 to 4.6, 5, 6: 1.3 is the fourth after 0, 1.2 the third.
    assert choices[2].greedy_distance == 3


def test_a_trajectory_without_a_clue_has_the_first_segment_as_its_greedy_choice() -> None:
    # Fig. 9: all scores are 0, and the agent takes 0, 1, 2 in turn; the evidence is in 5.
    steps = [reward(0, 0, 700, (0,) * 7)]
    for round, name in enumerate("012"):
        steps.append(choice(round, name))
        steps.append(reward(round + 1, 100.0 * round, 100.0 * round + 100, (0,) * 7, of=name))
    choices = segment_choices(trace(((510.0, 520.0),), *steps))
    assert [(each.chosen, each.distance) for each in choices] == [("0", -5), ("1", -4), ("2", -3)]
    # The earliest of equals: 0, then its first part.
    assert [each.greedy for each in choices] == ["0", "0.0", "0.0"]
    assert [each.greedy_distance for each in choices] == [-5, -11, -17]


def test_without_scores_there_is_no_greedy_choice() -> None:
    steps = (reward(0, 0, 700, (None,) * 7), choice(0, "2"))
    assert segment_choices(trace(((610.0, 620.0),), *steps)) == [SegmentChoice(0, "2", -4, None, None)]


def test_a_moment_is_evidence_and_a_touched_border_is_not() -> None:
    steps = (reward(0, 0, 700, (1,) * 7), choice(0, "2"))
    for evidence in ((350.0, 350.0), (300.0, 400.0)):
        (chosen,) = segment_choices(trace((evidence,), *steps))
        assert chosen.distance == -1


def test_without_evidence_in_the_video_nothing_is_measured() -> None:
    assert segment_choices(trace((), *FIGURE_4)) == []
    assert segment_choices(trace(((800.0, 900.0),), *FIGURE_4)) == []
    assert segment_choices(make(evidence=((1.0, 2.0),))) == []
