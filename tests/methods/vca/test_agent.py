"""VCA on real frames with a scripted model: every way in which an exploration can go and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.reason_world import colour_of
from tests.support.vca_world import explore, flat, listed, scores
from videopro.methods.vca import agent
from videopro.traces import Segment
from videopro.video import Frame

# Six frames split the minute into seven parts of 60/7 s.
BORDERS = [round(60.0 * place / 7, 3) for place in range(1, 7)]
FORCED = "no further segment or round: the answer was forced"


# ---- one round -------------------------------------------------------------------------------------------


def test_an_early_answer_takes_one_round() -> None:
    ended = explore([flat(50), {"answer": "B"}])
    final = ended.result.final
    assert final is not None
    # The letter is the agent's; nothing measured a confidence.
    assert (final.letter, final.confidence, final.raw) == ("B", 0.0, "B")
    assert ended.kinds == ["reward", "explore"]
    assert ended.result.frames_seen == 6
    assert ended.result.notes == ()
    sampling = ended.model.requests[0].sampling
    assert sampling is not None
    assert sampling.temperature == 0.5


def test_the_reward_step_holds_the_segments_with_scores_and_texts() -> None:
    ended = explore([scores(5, 15, 90, 0, 0, 0, 10), {"answer": "B"}])
    (step,) = ended.steps("reward")
    assert [segment.name for segment in step.segments] == list("0123456")
    assert [round(segment.start, 3) for segment in step.segments] == [0.0, *BORDERS]
    assert [round(segment.end, 3) for segment in step.segments] == [*BORDERS, 60.0]
    assert step.segments[2] == Segment(
        step.segments[1].end, step.segments[3].start, "2", "", 90.0, "seen in 2"
    )
    # Two frames a second: the frame on display began at most half a second before.
    assert all(0 <= border - frame[0] <= 0.5 for border, frame in zip(BORDERS, step.frames, strict=True))


def test_both_calls_see_the_frames_at_the_borders() -> None:
    seen: list[list[str]] = []

    def look(reply: Any) -> Any:
        def line(prompt: str, frames: Sequence[Frame]) -> Any:
            seen.append([colour_of(frame) for frame in frames])
            return reply

        return line

    explore([look(flat(0)), look({"answer": "B"})])
    assert seen == [["grey", "red", "grey", "blue", "grey", "green"]] * 2


# ---- the tree --------------------------------------------------------------------------------------------


def test_frames_of_a_chosen_segment_split_it() -> None:
    ended = explore([flat(20), {"segment": 1}, flat(40, first=7), {"answer": "B"}])
    first, second = ended.steps("reward")
    assert [segment.name for segment in second.segments] == [f"1.{place}" for place in range(7)]
    assert {segment.parent for segment in second.segments} == {"1"}
    assert (second.segments[0].start, second.segments[-1].end) == (
        first.segments[1].start,
        first.segments[1].end,
    )
    assert [step.round for step in ended.result.steps] == [0, 0, 1, 1, 1]
    choice, answer = ended.steps("explore")
    assert [(segment.name, segment.score) for segment in choice.segments] == [("1", 20.0)]
    assert answer.segments == ()


def test_the_agent_may_turn_back_to_any_open_segment() -> None:
    ended = explore(
        [
            *(flat(20, parts=3), {"segment": 2}),
            *(flat(5, first=3, parts=3), {"segment": 0}),
            *(flat(30, first=6, parts=3), {"segment": 7}),
            *(flat(60, first=9, parts=3), {"answer": "B"}),
        ],
        borders=2,
    )
    # In order of time: the parts of an explored segment stand in its place.
    assert [listed(request) for request in ended.asked_for_action] == [
        [0, 1, 2],
        [0, 1, 3, 4, 5],
        [6, 7, 8, 1, 3, 4, 5],
        [6, 9, 10, 11, 8, 1, 3, 4, 5],
    ]
    assert [step.segments[0].name for step in ended.steps("explore")[:3]] == ["2", "0", "0.1"]
    assert "Looked into" not in ended.asked_for_action[0].prompt
    assert "Looked into: 2, 0, 7" in ended.asked_for_action[3].prompt


def test_the_reward_model_sees_all_earlier_scores_and_texts() -> None:
    ended = explore(
        [
            *(scores(1, 2, 3, 4, 99, 6, 7), {"segment": 4}),
            *(flat(8, first=7), {"segment": 1}),
            *(flat(9, first=14), {"answer": "B"}),
        ]
    )
    first, second, third = (request.prompt for request in ended.asked_for_scores)
    assert "Scores before" not in first
    before, new = second.split("New parts")
    assert "4: 34.3-42.9 s, 99: seen in 4" in before
    assert "\n7: " not in before
    assert "13: 41.6-42.9 s" in new
    before, new = third.split("New parts")
    # The explored segment stays in the history, beside its parts.
    assert "4: 34.3-42.9 s, 99: seen in 4" in before
    assert "7: 34.3-35.5 s, 8: seen in 7" in before
    assert '{"14": {"why": "...", "score": 0}, ...}' in new


def test_short_segments_cannot_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SHORTEST", 2.0)
    # 60/7 s, then 60/49 s.
    ended = explore([flat(1), {"segment": 0}, flat(1, first=7), {"answer": "A"}])
    assert [listed(request) for request in ended.asked_for_action] == [
        [0, 1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 6],
    ]


def test_without_a_segment_to_explore_the_answer_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SHORTEST", 10.0)
    ended = explore([flat(1), "C"])
    assert ended.kinds == ["reward", "answer"]
    assert ended.result.notes == (FORCED,)


# ---- memory ----------------------------------------------------------------------------------------------


def test_the_memory_keeps_the_most_relevant_frames() -> None:
    ended = explore(
        [scores(0, 30, 90, 0, 0, 0, 10), {"segment": 2}, flat(50, first=7), {"answer": "B"}], buffer=8
    )
    (evicted,) = ended.steps("evict")
    # In round 1, the borders of segment 2 touch parts with 50; 0 | 1 has 30, 5 | 6 has 10, and 3 | 4 and
    # 4 | 5 have nothing. Of twelve frames, these four leave.
    assert evicted.args == {
        "capacity": 8,
        "times": [BORDERS[0], BORDERS[3], BORDERS[4], BORDERS[5]],
        "relevance": [30.0, 0.0, 0.0, 10.0],
    }
    assert evicted.result == "dropped the frames at 8.6 s, 34.3 s, 42.9 s, 51.4 s"
    assert (evicted.model, evicted.round, evicted.cost.calls, evicted.frames) == ("", 1, 0, ())
    last = ended.steps("explore")[1]
    assert len(last.frames) == len(ended.asked_for_action[1].frames) == 8
    # From one border of segment 2 to the other.
    assert (last.frames[0][0], last.frames[-1][0]) == (17.0, 25.5)


def test_the_text_of_a_dropped_frame_stays_in_the_history() -> None:
    ended = explore(
        [
            *(scores(0, 30, 90, 0, 0, 0, 10), {"segment": 2}),
            *(flat(50, first=7), {"segment": 6}),
            *(flat(5, first=14), {"answer": "B"}),
        ]
    )
    assert BORDERS[3] in ended.steps("evict")[0].args["times"]
    assert "4: 34.3-42.9 s, 0: seen in 4" in ended.asked_for_scores[2].prompt


def test_the_reward_model_sees_only_the_new_frames() -> None:
    ended = explore([flat(0), {"segment": 2}, flat(50, first=7), {"answer": "B"}])
    assert [len(request.frames) for request in ended.asked_for_scores] == [6, 6]


def test_among_equal_scores_the_oldest_frames_leave() -> None:
    ended = explore([flat(0), {"segment": 6}, flat(0, first=7), {"answer": "B"}], buffer=8)
    assert ended.steps("evict")[0].args["times"] == BORDERS[:4]


@pytest.mark.parametrize(
    ("settings", "frames", "kept"),
    [({}, 16, 8), ({"buffer": 5}, 16, 5), ({"buffer": 16}, 12, 12), ({"preset": "equal"}, 10, 10)],
)
def test_the_size_of_the_memory(settings: dict[str, Any], frames: int, kept: int) -> None:
    ended = explore(
        [
            *(flat(0), {"segment": 2}),
            *(flat(1, first=7), {"segment": 3}),
            *(flat(2, first=14), {"answer": "B"}),
        ],
        frames=frames,
        **settings,
    )
    assert len(ended.asked_for_action[2].frames) == kept
    noted = "the buffer holds 12 frames: the maximum of llm" in ended.result.notes
    assert noted is (settings == {"buffer": 16})


# ---- malformed replies -----------------------------------------------------------------------------------


def test_a_closed_segment_is_refused_with_the_open_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SHORTEST", 2.0)
    ended = explore(
        [
            *(flat(20), {"segment": 3}),
            *(flat(40, first=7), {"segment": 3}, {"segment": 4}),
            *(flat(60, first=14), {"answer": "B"}),
        ]
    )
    refused = ended.steps("explore")[1]
    assert refused.faults == ("segment: Input should be 0, 1, 2, 4, 5 or 6",)
    assert len(refused.rejected) == 1
    assert "Input should be 0, 1, 2, 4, 5 or 6" in ended.model.requests[4].prompt
    assert [segment.name for segment in refused.segments] == ["4"]


def test_an_agent_that_stays_unreadable_has_no_answer() -> None:
    ended = explore([flat(20), "I would look at 3.", "Segment 3!"])
    assert ended.kinds == ["reward", "explore"]
    assert ended.steps("explore")[0].is_unparsed
    assert ended.result.final is not None
    assert (ended.result.final.letter, ended.result.final.raw) == (None, "Segment 3!")


def test_a_fallback_answers_for_an_unreadable_agent() -> None:
    ended = explore([flat(20), "3", "3", "C"], fallback="native")
    assert ended.result.final is not None
    assert ended.result.final.letter == "C"
    assert len(ended.model.requests[3].frames) == 16


def test_scores_are_repaired_once() -> None:
    ended = explore([scores(1, 2, 3), flat(7), {"answer": "B"}])
    (step,) = ended.steps("reward")
    assert step.faults == ("3: Field required; 4: Field required; 5: Field required; and 1 more",)
    assert [segment.score for segment in step.segments] == [7.0] * 7


def test_without_readable_scores_the_segments_stay_open_and_unscored() -> None:
    ended = explore(
        ["?", "?", {"segment": 2}, flat(30, first=3, parts=3), {"answer": "B"}], borders=2, buffer=3
    )
    first = ended.steps("reward")[0]
    assert first.is_unparsed
    assert [segment.score for segment in first.segments] == [None] * 3
    unscored, scored = (request.prompt for request in ended.asked_for_action)
    assert "1: 20.0-40.0 s\n" in unscored
    assert "3: 40.0-46.7 s, 30\n" in scored
    assert "2: 40.0-60.0 s, no score" in ended.asked_for_scores[2].prompt
    # Unscored frames leave before scored ones.
    assert ended.steps("evict")[0].args == {"capacity": 3, "times": [20.0], "relevance": [-1.0]}


def test_unscored_parts_count_as_their_segment() -> None:
    ended = explore([scores(9, 9, 80, 9, 9, 9, 9), {"segment": 2}, "?", "?", {"answer": "B"}])
    # The new frames inherit 80, so that the agent sees what it asked for.
    assert ended.steps("evict")[0].args["times"] == [BORDERS[0], *BORDERS[3:]]


# ---- limits ----------------------------------------------------------------------------------------------


def test_the_last_round_ends_with_a_forced_answer() -> None:
    ended = explore([flat(1), {"segment": 0}, flat(2, first=7), {"segment": 1}, "D"], max_rounds=2)
    assert ended.kinds == ["reward", "explore", "reward", "evict", "explore", "answer"]
    assert ended.result.final is not None
    # An answering call, and so with a confidence.
    assert (ended.result.final.letter, ended.result.final.confidence) == ("D", 0.9)
    assert ended.result.notes == (FORCED,)
    assert ended.model.requests[-1].prompt.endswith("Reply with the letter of the right option only.")
    assert len(ended.model.requests[-1].frames) == 8
    assert ended.result.steps[-1].round == 1


def test_a_budget_of_frames_cuts_the_last_split_and_then_ends_the_search() -> None:
    ended = explore([flat(1), {"segment": 0}, flat(2, first=7, parts=4), {"segment": 1}, "B"], max_frames=9)
    # Three of six new frames are left: they make four parts.
    assert [len(step.segments) for step in ended.steps("reward")] == [7, 4]
    assert [len(request.frames) for request in ended.asked_for_scores] == [6, 3]
    assert ended.kinds[-1] == "answer"
    assert ended.result.frames_seen == 9
    assert ended.result.notes == (
        "the budget of 9 frames left out some",
        "the budget of 9 frames is spent: the answer was forced",
    )


def test_a_budget_of_steps_ends_with_an_answer_from_the_memory() -> None:
    ended = explore([flat(1), {"segment": 0}, "B"], max_steps=2)
    assert ended.kinds == ["reward", "explore", "answer"]
    assert len(ended.steps("answer")[0].frames) == 6


def test_a_model_of_few_frames_gets_fewer_segments() -> None:
    ended = explore([flat(1, parts=5), {"answer": "B"}], frames=4)
    assert len(ended.steps("reward")[0].segments) == 5
    assert "at most 4 frames a call: the maximum of llm" in ended.result.notes


def test_real_colours_lead_to_the_red_place() -> None:
    """The scores come from the pixels, and so does the answer."""

    def lines(prompt: str, start: str) -> list[str]:
        part = prompt.partition(start)[2].partition("\n")[2]
        return [line for line in part.splitlines() if line[0].isdigit()]

    def judge(prompt: str, frames: Sequence[Frame]) -> Any:
        red = [colour_of(frame) == "red" for frame in frames]
        ends = zip([False, *red], [*red, False], strict=True)
        return {
            line.partition(":")[0]: {"why": "red" if any(pair) else "not red", "score": 50 * sum(pair)}
            for line, pair in zip(lines(prompt, "New parts"), ends, strict=True)
        }

    def decide(prompt: str, frames: Sequence[Frame]) -> Any:
        if sum(colour_of(frame) == "red" for frame in frames) >= 4:
            return {"answer": "red"}
        best = max(lines(prompt, "Parts to look into"), key=lambda line: float(line.rpartition(",")[2]))
        return {"segment": int(best.partition(":")[0])}

    ended = explore([judge, decide] * 3)
    assert ended.result.final is not None
    assert ended.result.final.letter == "B"
    chosen = [segment for step in ended.steps("explore") for segment in step.segments]
    # The red scene lasts from 10 to 20 s.
    assert chosen
    assert all(segment.start < 20.0 and segment.end > 10.0 for segment in chosen)
