"""The paper's two trajectories (Figs. 4 and 9), replayed by a scripted model: what VCA keeps of them."""

from __future__ import annotations

from dataclasses import replace

from tests.support.method_world import item
from tests.support.vca_world import explore, flat, scores
from videopro.benchmarks import Protocol
from videopro.methods import make_trace, video_ref
from videopro.traces import Trace
from videopro.traces.scoring import segment_choices


def test_an_agent_that_leaves_the_best_score_and_turns_back() -> None:
    # Fig. 4: the fourth segment looks best and disappoints; the agent turns to the first, and there to the
    # third part although the second scores higher. Four parts of 15 s, each of four parts of 3.75 s.
    asked = replace(item(), evidence=((8.0, 9.0),))
    ended = explore(
        [
            *(scores(60, 20, 30, 90), {"segment": 3}),
            *(scores(10, 5, 5, 0, first=4), {"segment": 0}),
            *(scores(40, 85, 70, 10, first=8), {"segment": 10}),
            *(scores(20, 95, 20, 20, first=12), {"answer": "B"}),
        ],
        asked=asked,
        borders=3,
        buffer=5,
    )
    assert ended.kinds == [
        *("reward", "explore", "reward", "evict", "explore"),
        *("reward", "evict", "explore", "reward", "evict", "explore"),
    ]
    assert [(step.args["times"], step.args["relevance"]) for step in ended.steps("evict")] == [
        # Two frames inside 3 border nothing better than 5; the earlier one leaves.
        ([52.5], [5.0]),
        # 15 s had the 60 of segment 0; its last part has 10, so that the 20 of segment 1 is left.
        ([15.0, 48.75, 56.25], [20.0, 10.0, 5.0]),
        # 11.25 s had the 70 of segment 0.2. 30 and 45 s both have 30; the earlier one leaves.
        ([10.312, 11.25, 30.0], [20.0, 20.0, 30.0]),
    ]
    trace = make_trace(asked, ended.result, video_ref(asked), run_key="k", protocol=Protocol(parser="robust"))
    choices = segment_choices(Trace.from_line(trace.to_line()))
    assert [(each.chosen, each.greedy) for each in choices] == [("3", "3"), ("0", "0"), ("0.2", "0.1")]
    assert [(each.distance, each.greedy_distance) for each in choices] == [(3, 3), (0, 0), (0, -1)]


def test_an_agent_that_finds_nothing_goes_on_until_it_must_answer() -> None:
    # Fig. 9: every score is 0, in every round, and the agent takes one segment after the other.
    lines = [line for place in range(7) for line in (flat(0, first=7 * place), {"segment": place})]
    ended = explore([*lines, "C"], max_rounds=7)
    assert [step.segments[0].name for step in ended.steps("explore")] == list("0123456")
    assert len(ended.steps("reward")) == 7
    # The figure's prolonged exploration: more than three times the frames of one round.
    assert ended.result.frames_seen > 3 * 6
    # With nothing to tell them apart, the newest frames stay: the six of segment 5, and two of segment 4.
    kept = [frame[0] for frame in ended.steps("answer")[0].frames]
    assert len(kept) == 8
    assert min(kept) >= 4 * 60 / 7 - 0.5
    assert ended.result.final is not None
    assert ended.result.final.letter == "C"
