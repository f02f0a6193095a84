"""VideoAgent's Algorithm 1 on the minute of coloured scenes: ten seconds each of grey, red, grey, blue, grey,
green. The five first frames are those of seconds 6, 18, 30, 42 and 54; each is shown half a second later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.videoagent_world import (
    SceneVideoAgent,
    kinds,
    looked_at,
    predict,
    reflect,
    search,
)
from videopro.errors import ConfigError
from videopro.methods.videoagent.agent import FPS, VideoAgentSettings

FIRST = [6.5, 18.5, 30.5, 42.5, 54.5]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))


def test_a_question_of_two_rounds_is_algorithm_1_line_by_line() -> None:
    wanted = search((5, "green"), (2, "red"))
    method = SceneVideoAgent([predict("D", "mostly grey"), reflect(1), wanted, predict("B"), reflect(3)])
    result = method.answer()
    # 1: s_1 <- captions of 5 uniform frames. t = 1: predict, reflect (1 < 3), find what is missing, retrieve,
    # 10: s_2 <- merge with captions of what was found. t = 2: predict, reflect (3 >= 3), break.
    assert kinds(result) == [
        *[("caption", 0)] * 5, ("predict", 0), ("reflect", 0), ("search", 0), ("retrieve", 0),
        *[("caption", 0)] * 2, ("predict", 1), ("reflect", 1),
    ]  # fmt: skip
    assert (result.final.letter, result.final.confidence, result.rounds[0].execution.claim) == ("B", 0.0, 1.0)
    # The first of the equally red seconds of segment 2 (6.5 to 18.5 s) is 10, as is 50 of the green ones.
    assert looked_at(result) == [6.5, 10.5, 18.5, 30.5, 42.5, 50.5, 54.5]
    assert result.frames_seen == 7
    assert (result.cost.frames, result.cost.calls) == (7, 12)
    retrieve = result.steps[8]
    assert retrieve.result == "10.5 s, 50.5 s"
    assert [(each.name, each.start, each.end, each.text) for each in retrieve.segments] == [
        ("5", 50.0, 51.0, "green"), ("2", 10.0, 11.0, "red")
    ]  # fmt: skip
    assert [(each.name, each.start, each.end) for each in result.steps[7].segments] == [
        ("5", 42.5, 54.5), ("2", 6.5, 18.5)
    ]  # fmt: skip
    # What was found is merged with the first captions by time.
    known = [line for line in result.steps[-2].prompt.splitlines() if " s: a " in line]
    assert known == [
        "6.5 s: a grey wall", "10.5 s: a red wall", "18.5 s: a red wall", "30.5 s: a blue wall",
        "42.5 s: a grey wall", "50.5 s: a green wall", "54.5 s: a green wall",
    ]  # fmt: skip
    # Reflection is shown the prediction and its reasons.
    assert "Your answer: D. grey\nYour reasons: mostly grey" in result.steps[6].prompt
    offered = [line for line in result.steps[7].prompt.splitlines() if line.endswith(" s") and line[1] == ":"]
    assert offered == [
        "1: 0.0-6.5 s", "2: 6.5-18.5 s", "3: 18.5-30.5 s", "4: 30.5-42.5 s", "5: 42.5-54.5 s",
        "6: 54.5-60.0 s",
    ]  # fmt: skip


def test_confidence_ends_the_search_at_once() -> None:
    result = SceneVideoAgent([predict("B"), reflect(3)]).answer()
    assert kinds(result) == [*[("caption", 0)] * 5, ("predict", 0), ("reflect", 0)]
    assert looked_at(result) == FIRST


def test_the_threshold_is_inclusive() -> None:
    assert SceneVideoAgent([predict("B"), reflect(2)], threshold=2).answer().rounds[0].execution.claim == 0.5


CAPPED = [
    predict("A"), reflect(1), search((2, "red")),
    predict("C"), reflect(2), search((6, "green")),
    predict("D"),
]  # fmt: skip


def test_the_last_round_reflects_but_looks_for_nothing() -> None:
    result = SceneVideoAgent([*CAPPED, reflect(1)]).answer()
    assert [kind for kind in kinds(result) if kind[0] != "caption"] == [
        ("predict", 0), ("reflect", 0), ("search", 0), ("retrieve", 0),
        ("predict", 1), ("reflect", 1), ("search", 1), ("retrieve", 1), ("predict", 2), ("reflect", 2),
    ]  # fmt: skip
    # The answer is the last prediction, and the claim is the confidence in it.
    assert (result.final.letter, result.rounds[0].execution.claim) == ("D", 0.0)
    # With the frame of second 10, there is a segment more before the last one.
    assert [each.name for each in result.steps[-4].segments] == ["6"]


def test_without_self_evaluation_all_rounds_are_used() -> None:
    lines = [predict("A"), search((2, "red")), predict("B"), search((7, "57.5")), predict("B")]
    result = SceneVideoAgent(lines, self_evaluation=False).answer()
    assert "reflect" not in dict(kinds(result))
    assert kinds(result)[-1] == ("predict", 2)
    assert looked_at(result) == sorted([*FIRST, 10.5, 57.5])


def test_one_round_is_one_prediction_without_an_index() -> None:
    result = SceneVideoAgent([predict("A"), reflect(1)], max_rounds=1, encoder=False).answer()
    assert looked_at(result) == FIRST
    assert result.prepared == ()


def test_the_number_of_first_frames_is_a_setting() -> None:
    # Thirds of the minute: 10, 30 and 50 s.
    assert looked_at(SceneVideoAgent([predict("B"), reflect(3)], first_frames=3).answer()) == [
        10.5,
        30.5,
        50.5,
    ]


# ---- replies that cannot be parsed -----------------------------------------------------------------------


def test_a_malformed_reply_is_repaired() -> None:
    result = SceneVideoAgent(["It is red.", predict("B"), {"confidence": 4}, reflect(3)]).answer()
    predicted, reflected = result.steps[-2:]
    assert (predicted.rejected, predicted.is_unparsed) == (("It is red.",), False)
    assert "Input should be 1, 2 or 3" in reflected.faults[0]
    assert (result.final.letter, result.rounds[0].execution.claim) == ("B", 1.0)


def test_a_letter_with_its_option_and_a_number_in_quotes_are_read() -> None:
    result = SceneVideoAgent([predict("(B) red"), {"confidence": "3"}]).answer()
    assert (result.final.letter, result.rounds[0].execution.claim) == ("B", 1.0)
    assert not any(step.rejected for step in result.steps)


def test_an_unparsed_confidence_is_none_and_the_search_goes_on() -> None:
    lines = [predict("A"), "sure", "very sure", search((2, "red")), predict("B"), "sure", "very sure"]
    result = SceneVideoAgent(lines, max_rounds=2).answer()
    assert [step.is_unparsed for step in result.steps if step.kind == "reflect"] == [True, True]
    assert 10.5 in looked_at(result)
    assert (result.final.letter, result.rounds[0].execution.claim) == ("B", None)


def test_an_unparsed_prediction_is_not_reflected_on() -> None:
    lines = ["red", "red!", search((2, "red")), predict("B"), reflect(3)]
    result = SceneVideoAgent(lines).answer()
    assert [kind for kind in kinds(result) if kind[0] != "caption"] == [
        ("predict", 0), ("search", 0), ("retrieve", 0), ("predict", 1), ("reflect", 1)
    ]  # fmt: skip
    assert result.final.letter == "B"


def test_an_unparsed_last_prediction_is_no_answer() -> None:
    result = SceneVideoAgent(
        [predict("B"), reflect(1), search((2, "red")), "red", "red!"], max_rounds=2
    ).answer()
    assert (result.final.letter, result.final.raw) == (None, "red!")
    assert (result.rounds[0].execution.status, result.rounds[0].execution.claim) == ("empty", None)


def test_an_unparsed_search_finds_nothing_and_the_next_round_follows() -> None:
    result = SceneVideoAgent([predict("A"), reflect(1), "red", "red!", predict("B"), reflect(3)]).answer()
    assert ("retrieve", 0) not in kinds(result)
    assert looked_at(result) == FIRST
    assert result.final.letter == "B"


def test_a_segment_that_is_not_there_is_a_mistake_that_the_model_is_shown() -> None:
    method = SceneVideoAgent(
        [predict("A"), reflect(1), search((9, "red")), search((2, "red")), predict("B"), reflect(3)]
    )
    result = method.answer()
    assert "segment_id: Input should be 1, 2, 3, 4, 5 or 6" in method.llm.requests[3].prompt
    assert 10.5 in looked_at(result)


# ---- where frames come from ------------------------------------------------------------------------------


def test_without_segment_selection_the_whole_video_is_searched() -> None:
    lines: list[Any] = [predict("A"), reflect(1), search("green"), predict("C"), reflect(3)]
    method = SceneVideoAgent(lines, segment_selection=False)
    result = method.answer()
    assert "Parts of the video" not in method.llm.requests[2].prompt
    assert looked_at(result) == sorted([*FIRST, 50.5])
    # A segment that it names nevertheless is not read.
    assert "segment_id" not in str(method.llm.requests[2].schema)
    lines[2] = search((3, "green"))
    assert 50.5 in looked_at(SceneVideoAgent(lines, segment_selection=False).answer())
    # With segments, only the frames of the named one are compared: there is no green in 30.5 to 42.5 s.
    found = looked_at(SceneVideoAgent([*lines[:2], search((4, "green")), *lines[3:]]).answer())
    assert all(30.5 < time < 42.5 for time in {*found} - {*FIRST})


def test_uniform_frames_are_the_middles_of_the_longest_segments() -> None:
    lines = [predict("A"), reflect(1), search((1, "red"), (1, "blue")), predict("B"), reflect(3)]
    method = SceneVideoAgent(lines, selection="uniform", encoder=False)
    result = method.answer()
    # Of four segments of eleven seconds, the first two: seconds 7 to 17 and 19 to 29.
    assert looked_at(result) == sorted([*FIRST, 12.5, 24.5])
    assert result.prepared == ()
    assert method.identity()["selection"] == "uniform"


def test_a_frame_next_to_a_seen_one_is_left_out() -> None:
    # The best red second of segment 3 is 19, next to the seen second 18.
    lines = [predict("A"), reflect(1), search((3, "red")), predict("B"), reflect(3)]
    result = SceneVideoAgent(lines).answer()
    assert looked_at(result) == FIRST
    (retrieve,) = (step for step in result.steps if step.kind == "retrieve")
    assert retrieve.result == "no new frame; left out: 19.5 s"


def test_of_two_neighbours_the_better_one_is_kept_and_equal_ones_count_once() -> None:
    wanted = search((2, "12.5z"), (2, "11.5"), (2, "11.5"))
    result = SceneVideoAgent([predict("A"), reflect(1), wanted, predict("B"), reflect(3)]).answer()
    assert looked_at(result) == sorted([*FIRST, 11.5])
    (retrieve,) = (step for step in result.steps if step.kind == "retrieve")
    assert retrieve.result == "11.5 s; left out: 12.5 s"
    assert len(retrieve.segments) == 3


# ---- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"first_frames": 0}, "first_frames is 0; it must be at least 1"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"threshold": 4}, "threshold is 4; it must be 1, 2 or 3"),
        ({"clip_seconds": 0.0}, "clip_seconds is 0.0; it must be above 0"),
        ({"captions": "none", "captioner": "pocket"}, "captioner is 'pocket', but captions is 'none'"),
        ({"selection": "uniform", "encoder": "clip"}, "encoder is 'clip', but selection is 'uniform'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        VideoAgentSettings(**given)


def test_the_defaults_are_the_papers() -> None:
    settings = VideoAgentSettings()
    assert (settings.first_frames, settings.max_rounds, settings.threshold, FPS) == (5, 3, 3, 1.0)
    assert (settings.selection, settings.segment_selection, settings.self_evaluation) == (
        "retrieval",
        True,
        True,
    )
