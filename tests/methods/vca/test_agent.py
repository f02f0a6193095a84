"""VCA on real frames with a scripted model: every way in which an exploration can go and end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.agents import explore, flat, listed, scores
from tests.support.number_encoder import NumberEncoder
from tests.support.scenes import colour_of, item
from videopro.benchmarks import Protocol
from videopro.errors import ConfigError
from videopro.methods import create, make_trace, video_ref
from videopro.methods.agents import UnparsedReply, parse_reply
from videopro.methods.agents.session import plain
from videopro.methods.vca import MemoryBuffer, VcaSettings, agent
from videopro.methods.vca.prompts import action_of, scores_of
from videopro.modules import ModuleModels
from videopro.question import Question
from videopro.traces import Segment
from videopro.traces.scoring import segment_choices
from videopro.video import Frame

# Six frames split the minute into seven parts of 60/7 s.
BORDERS = [round(60.0 * place / 7, 3) for place in range(1, 7)]
FORCED = "no further segment or round: the answer was forced"


def test_an_early_answer_takes_one_round_whose_segments_have_scores_and_texts() -> None:
    ended = explore([scores(5, 15, 90, 0, 0, 0, 10), {"answer": "B"}])
    final = ended.result.final
    # The letter is the agent's; nothing measured a confidence.
    assert (final.letter, final.confidence, final.raw) == ("B", 0.0, "B")
    assert (ended.kinds, ended.result.frames_seen, ended.result.notes) == ("reward explore", 6, ())
    (step,) = ended.steps("reward")
    assert [segment.name for segment in step.segments] == list("0123456")
    assert [round(segment.start, 3) for segment in step.segments] == [0.0, *BORDERS]
    assert [round(segment.end, 3) for segment in step.segments] == [*BORDERS, 60.0]
    assert step.segments[2] == Segment(
        step.segments[1].end, step.segments[3].start, "2", "", 90.0, "seen in 2"
    )
    # Two frames a second: the frame on display began at most half a second before.
    assert all(0 <= border - frame[0] <= 0.5 for border, frame in zip(BORDERS, step.frames, strict=True))


def test_frames_of_a_chosen_segment_split_it() -> None:
    ended = explore([flat(20), {"segment": 1}, flat(40, first=7), {"answer": "B"}])
    first, second = ended.steps("reward")
    assert [segment.name for segment in second.segments] == [f"1.{place}" for place in range(7)]
    assert {segment.parent for segment in second.segments} == {"1"}
    whole = first.segments[1]
    assert (second.segments[0].start, second.segments[-1].end) == (whole.start, whole.end)
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
    first, second, *_ = (request.prompt for request in ended.asked_for_scores)
    assert "Scores before" not in first
    assert "2: 40.0-60.0 s, 20: seen in 2" in second.split("New parts")[0]
    assert "Looked into" not in ended.asked_for_action[0].prompt
    assert "Looked into: 2, 0, 7" in ended.asked_for_action[3].prompt


def test_short_segments_cannot_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SHORTEST", 2.0)
    # 60/7 s, then 60/49 s.
    ended = explore([flat(1), {"segment": 0}, flat(1, first=7), {"answer": "A"}])
    assert [listed(request) for request in ended.asked_for_action] == [
        [0, 1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 6],
    ]
    # Without a segment to explore the answer is forced.
    monkeypatch.setattr(agent, "SHORTEST", 10.0)
    forced = explore([flat(1), "C"])
    assert (forced.kinds, forced.result.notes) == ("reward answer", (FORCED,))


@pytest.mark.parametrize(
    ("settings", "frames", "kept"),
    [({}, 16, 8), ({"buffer": 16}, 12, 12), ({"preset": "equal"}, 10, 10)],
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


def test_the_last_round_ends_with_a_forced_answer() -> None:
    ended = explore([flat(1), {"segment": 0}, flat(2, first=7), {"segment": 1}, "D"], max_rounds=2)
    assert ended.kinds == "reward explore reward1 evict1 explore1 answer1"
    # An answering call, and so with a confidence.
    assert (ended.result.final.letter, ended.result.final.confidence) == ("D", 0.9)
    assert ended.result.notes == (FORCED,)
    assert ended.model.requests[-1].prompt.endswith("Reply with the letter of the right option only.")
    assert len(ended.model.requests[-1].frames) == 8


def test_a_budget_of_frames_cuts_the_last_split_and_then_ends_the_search() -> None:
    ended = explore([flat(1), {"segment": 0}, flat(2, first=7, parts=4), {"segment": 1}, "B"], max_frames=9)
    # Three of six new frames are left: they make four parts.
    assert [len(step.segments) for step in ended.steps("reward")] == [7, 4]
    assert [len(request.frames) for request in ended.asked_for_scores] == [6, 3]
    assert ended.kinds.endswith("answer2")
    assert ended.result.frames_seen == 9
    assert ended.result.notes == (
        "the budget of 9 frames left out some",
        "the budget of 9 frames is spent: the answer was forced",
    )


def test_without_rewards_the_newest_frames_stay() -> None:
    ended = explore([{"segment": 6}, {"answer": "B"}], reward="none", buffer=6)
    assert ended.kinds == "reward explore reward1 evict1 explore1"
    first, _ = ended.steps("reward")
    assert (first.model, [segment.score for segment in first.segments]) == ("", [None] * 7)
    assert min(frame[0] for frame in ended.steps("explore")[1].frames) >= 51.0


@pytest.mark.parametrize(
    ("evidence", "scores", "note"),
    [
        # 8.6 to 17.1 s holds three quarters of it, the next segment one.
        (
            ((120 / 7 - 6, 120 / 7 + 2),),
            [0, 75, 25, 0, 0, 0, 0],
            "oracle: segments are scored by the annotated evidence",
        ),
        # A moment counts as a hundredth of a second.
        (((30.0, 30.0),), [0, 0, 0, 100, 0, 0, 0], "oracle: segments are scored by the annotated evidence"),
        ((), [None] * 7, "oracle: segments are scored by the annotated evidence, but this question has none"),
    ],
)
def test_the_oracle_scores_by_the_evidence(evidence: Any, scores: list[Any], note: str) -> None:
    ended = explore([{"answer": "B"}], reward="evidence", asked=item(evidence=evidence))
    (step,) = ended.steps("reward")
    found = [segment.score for segment in step.segments]
    assert found == (scores if scores[0] is None else pytest.approx(scores))
    assert step.args == {"reward": "evidence"}
    assert note in ended.result.notes
    # Only with this reward, as a run's key says.
    oracle, own = (create("vca", {"reward": reward}).identity() for reward in ("evidence", "model"))
    assert (oracle["oracle"], "oracle" in own) == ("evidence", False)


class ColourEncoder(NumberEncoder):
    """A red picture has cosine 0.8 with any text, a green one -0.5, and another one 0.2."""

    clip_frames = 2
    cosines: dict[str, float] = {"red": 0.8, "green": -0.5}

    def __init__(self) -> None:
        super().__init__()
        self.clips: list[Sequence[Frame]] = []

    def score_clips(self, texts: Sequence[str], clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        assert list(texts) == [item().question.text]
        assert all(clip[0] is clip[1] for clip in clips)
        self.clips += clips
        return np.array([[self.cosines.get(colour_of(clip[0]), 0.2) for clip in clips] for _ in texts])


def test_image_rewards_are_mean_similarities_of_start_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = ColourEncoder()
    monkeypatch.setattr(ModuleModels, "encoder", lambda self: encoder)
    ended = explore([{"segment": 1}, {"answer": "B"}], reward="image")
    first, second = ended.steps("reward")
    # The frames are grey, red, grey, blue, grey, green; the first and the last segment have one of them. A
    # negative cosine counts as nothing.
    assert [s.score for s in first.segments] == pytest.approx([20, 50, 50, 20, 20, 10, 0])
    assert len(first.frames) == 6
    # Segment 1 lasts from 8.6 s, a frame known from the round before, to 17.1 s; it is red from 10 s on.
    assert [s.score for s in second.segments] == pytest.approx([20, 50, 80, 80, 80, 80, 80])
    assert len(encoder.clips) == 12
    assert "2: 17.1-25.7 s, 50\n" in ended.asked_for_action[1].prompt


def test_image_rewards_need_an_encoder() -> None:
    with pytest.raises(ConfigError, match="reward=image needs an encoder"):
        explore([], reward="image", encoder="none")


def test_without_tree_search_the_agent_names_moments() -> None:
    ended = explore(
        [{"times": [12.5, 11, 11]}, {"times": [15, 99]}, {"answer": "B"}], tree_search=False, buffer=8
    )
    assert ended.kinds == "explore explore1 evict2 explore2"
    assert [len(request.frames) for request in ended.model.requests] == [6, 8, 8]
    second = ended.model.requests[1].prompt
    assert "Looked at, in seconds: 5.0, 11.0, 12.5, 15.0, 25.0, 35.0, 45.0, 55.0\n" in second
    # 99 s is the end; 15 s was among the first, and so one frame is too many.
    assert ended.steps("evict")[0].args["times"] == [5.0]
    assert ended.steps("explore")[0].segments == ()
    assert ended.result.final.letter == "B"


def test_without_tree_search_the_cap_and_unreadable_replies_end_it_too() -> None:
    capped = explore([{"times": [12.5]}, {"times": [13]}, "C"], max_rounds=2, tree_search=False)
    assert capped.kinds == "explore explore1 answer1"
    assert capped.result.notes == ("no further round: the answer was forced",)
    unread = explore([{"segment": 1}, {"times": "all"}], tree_search=False)
    assert unread.steps("explore")[0].is_unparsed
    assert unread.result.final.letter is None


def test_without_tree_search_a_remembered_frame_costs_nothing_again() -> None:
    # The first frames are between two pictures of the video; showing them again must not count as new.
    ended = explore([{"times": [9.3]}, {"answer": "B"}], tree_search=False, max_frames=8, borders=7)
    assert [len(request.frames) for request in ended.model.requests] == [7, 8]
    assert ended.result.notes == ()


@pytest.mark.parametrize(("duration", "frames"), [(180.0, 8), (165.0, 8), (2466.0, 16), (4100.0, 16)])
def test_the_papers_buffer_sizes(duration: float, frames: int) -> None:
    assert VcaSettings().buffer_size(duration) == frames


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
    assert ended.kinds == "reward explore " + " ".join(f"reward{n} evict{n} explore{n}" for n in (1, 2, 3))
    assert [(step.args["times"], step.args["relevance"]) for step in ended.steps("evict")] == [
        # Two frames inside 3 border nothing better than 5; the earlier one leaves.
        ([52.5], [5.0]),
        # 15 s had the 60 of segment 0; its last part has 10, so that the 20 of segment 1 is left.
        ([15.0, 48.75, 56.25], [20.0, 10.0, 5.0]),
        # 11.25 s had the 70 of segment 0.2. 30 and 45 s both have 30; the earlier one leaves.
        ([10.312, 11.25, 30.0], [20.0, 20.0, 30.0]),
    ]
    evicted = ended.steps("evict")[0]
    assert (evicted.args["capacity"], evicted.result) == (5, "dropped the frames at 52.5 s")
    assert (evicted.model, evicted.cost.calls, evicted.frames) == ("", 0, ())
    # What it kept is what the agent sees next.
    seen = [len(request.frames) for request in ended.asked_for_action]
    assert seen == [len(step.frames) for step in ended.steps("explore")] == [3, 5, 5, 5]
    trace = make_trace(asked, ended.result, video_ref(asked), run_key="k", protocol=Protocol(parser="robust"))
    choices = segment_choices(trace)
    assert [(each.chosen, each.greedy) for each in choices] == [("3", "3"), ("0", "0"), ("0.2", "0.1")]
    assert [(each.distance, each.greedy_distance) for each in choices] == [(3, 3), (0, 0), (0, -1)]


def test_of_equal_frames_that_which_was_added_first_leaves() -> None:
    buffer = MemoryBuffer(4)
    assert buffer.update([20.0, 30.0, 40.0], lambda time: 0.0) == []
    assert buffer.update([1.0, 2.0, 3.0], lambda time: 0.0) == [20.0, 30.0]
    assert buffer.update([50.0], lambda time: 0.0) == [40.0]
    assert buffer.times == [1.0, 2.0, 3.0, 50.0]


COLOUR = Question("Which colour?", ("red", "blue", "green"))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ('{"segment": 0}', "segment: Input should be 1 or 9"),
        ('{"segment": true}', "segment: Input should be 1 or 9"),
        ('{"answer": "E"}', "answer: Input should be 'A', 'B' or 'C'"),
        ('{"segment": 1, "answer": "B"}', "give exactly one of segment, answer"),
        ('{"choice": 1}', "give exactly one of segment, answer"),
    ],
)
def test_a_model_is_told_what_it_may_reply(reply: str, why: str) -> None:
    with pytest.raises(UnparsedReply, match=why):
        parse_reply(reply, action_of(COLOUR, segments=[1, 9]))


def test_every_new_segment_needs_a_score_and_a_reason_is_optional() -> None:
    schema = scores_of([7, 8])
    read = parse_reply('{"7": {"score": 3}, "8": {"why": "a cat", "score": 100}}', schema)
    found = {number: (score.why, score.score) for number, score in read.by_number().items()}
    assert found == {7: ("", 3.0), 8: ("a cat", 100.0)}
    assert plain(read) == {"7": {"why": "", "score": 3.0}, "8": {"why": "a cat", "score": 100.0}}
    with pytest.raises(UnparsedReply, match="8: Field required"):
        parse_reply('{"7": {"score": 7}}', schema)
    with pytest.raises(UnparsedReply, match=r"7\.score: Input should be less than or equal to 100"):
        parse_reply('{"7": {"score": 101}, "8": {"score": 1}}', schema)
