"""What a call could have returned instead, by docs/results/methods/confidence.md; values by hand."""

from typing import Any

import pytest

from tests.support.scenes import video_context
from videopro.modules import VideoContext
from videopro.modules.calls import MODULES, AnswerHandle, BoxHandle, FrameHandle, LineHandle, TrackHandle
from videopro.modules.library import ModuleLibrary
from videopro.modules.replaying import ReplayLibrary, alternatives, first_values
from videopro.question import Answer, Question

TEXTS = ("cat", "3 dogs")


@pytest.fixture(scope="module")
def world() -> VideoContext:
    return video_context()


def others(world: VideoContext, result: Any, **values: Any) -> list[Any]:
    return alternatives(result, values, TEXTS, world)


def test_a_reply_exchanges_two_probabilities_and_keeps_its_confidence(world: VideoContext) -> None:
    yes = AnswerHandle(Answer("Yes", 0.7, {"Yes": 0.7, "No": 0.2}, "Yes"), "yes_no", ("Yes", "No"))
    (no,) = others(world, yes)
    assert (no.answer, no.confidence, no.raw_output) == ("No", 0.7, "No")
    assert no.letters == {"Yes": 0.2, "No": 0.7}
    letter = AnswerHandle(Answer("B", 0.5, {"A": 0.1, "B": 0.5, "C": 0.3}), "mc", ("x", "y", "z"))
    assert [(one.answer, dict(one.letters)) for one in others(world, letter)] == [
        ("A", {"A": 0.5, "B": 0.1, "C": 0.3}),
        ("C", {"A": 0.1, "B": 0.3, "C": 0.5}),
    ]


def test_a_count_and_what_could_not_be_read_have_every_other_reading(world: VideoContext) -> None:
    count = AnswerHandle(Answer("3", 0.6, {str(n): 0.1 for n in range(6)}), "count")
    # The closest first.
    assert [one.answer for one in others(world, count)] == ["2", "4", "1", "5", "0"]
    mumbled = AnswerHandle(Answer(None, 0.0, {"Yes": 0.1, "No": 0.2}, "Hmm"), "yes_no", ("Yes", "No"))
    assert [one.answer for one in others(world, mumbled)] == ["Yes", "No"]


def test_texts_are_those_of_the_options_and_none(world: VideoContext) -> None:
    assert others(world, "OPEN 24 h") == ["OPEN 25 h", "cat", "3 dogs", ""]
    assert others(world, "cat") == ["3 dogs", ""]
    words = AnswerHandle(Answer(None, 0.9, {}, "a cat"), "frames")
    found = others(world, words)
    assert ([one.answer for one in found], {one.confidence for one in found}) == (
        ["cat", "3 dogs", ""],
        {0.9},
    )


def test_boxes_and_tracks_are_none_fewer_more_and_elsewhere(world: VideoContext) -> None:
    frame = FrameHandle(world.video, 1.0)  # 64 x 48
    first, second = BoxHandle(0, 0, 10, 8, "cat", 0.9), BoxHandle(20, 0, 30, 8, "cat", 0.8)
    none, fewer, more, mirrored = others(world, [first, second], frame=frame)
    assert (none, fewer, more) == ([], [first], [first, second, second])
    assert [(box.x0, box.x1) for box in mirrored] == [(54, 64), (34, 44)]
    ((found,),) = others(world, [], frame=frame, text="cat")
    assert (*map(float, (found.x0, found.y0, found.x1, found.y1)), found.label) == (16, 12, 48, 36, "cat")
    track = TrackHandle(1, "cat", 0.9, (1.0, 2.0), ((0, 0, 1, 1), None))
    assert others(world, [track], frames=[frame]) == [[], [track, track]]
    ((rests,),) = others(world, [], frames=[frame, FrameHandle(world.video, 3.0)], text="cat")
    assert (rests.times, rests.start, rests.end) == ((1.0, 3.0), 1.0, 3.0)


def test_clips_are_at_the_beginning_and_the_end_of_what_was_searched(world: VideoContext) -> None:
    clips = [world.clip(20.0, 30.0, 0.9), world.clip(40.0, 50.0, 0.8)]
    result = ([(20.0, 30.0), (40.0, 50.0)], clips)
    early, late = others(world, result, video=world.handle, total_duration=None)
    assert early[0] == [(0.0, 10.0), (10.0, 20.0)]
    assert late[0] == [(40.0, 50.0), (50.0, 60.0)]
    assert [(clip.start, clip.score) for clip in early[1]] == [(0.0, 0.9), (10.0, 0.8)]
    # Lines are said at 12, 22 and 34 s.
    assert [clip.subtitles for clip in early[1]] == ["", "The old king laughs."]
    (within,) = others(world, ([(0.0, 10.0)], [world.clip(0.0, 10.0)]), video=world.handle, total_duration=25)
    assert within[0] == [(15.0, 25.0)]  # At the beginning they are already.


def test_lines_are_others_or_say_something_else(world: VideoContext) -> None:
    line = LineHandle(world.video, 22.0, 25.0, 0.5, "Anna hid a lamp.")
    first, last, cat, dogs = others(world, [line])
    assert [(lines[0].start, lines[0].text) for lines in (first, last)] == [
        (12.0, "The old king laughs."),
        (34.0, "Everybody talks about the wedding."),
    ]
    assert [(lines[0].start, lines[0].text) for lines in (cat, dogs)] == [(22.0, "cat"), (22.0, "3 dogs")]


@pytest.mark.parametrize(
    ("result", "expected"),
    [(True, [False]), (4, [5, 3]), (0.5, [1.5, -0.5]), (["a", "b"], [["a"], []]), (["a"], [[]]), (None, [])],
)
def test_of_a_module_of_the_users_own_plain_values_are_changed(
    world: VideoContext, result: Any, expected: list[Any]
) -> None:
    assert others(world, result) == expected


# The arguments without which a module cannot say what it might have returned.
GIVEN: dict[str, dict[str, Any]] = {
    "query_mc": {"choices": ["a", "b", "c"]},
    "query_native": {"choices": ["a", "b"]},
    "query_count": {"most": 4},
    "detect_object": {"text": "cat"},
    "track_object": {"text": "cat"},
    "get_informative_clips": {"top_k": 2, "total_duration": None},
    "get_informative_subtitles": {"top_k": 2},
}


@pytest.mark.parametrize("name", [spec.name for spec in MODULES.values() if spec.is_cached])
def test_of_every_built_in_module_that_looks_two_results_are_known(world: VideoContext, name: str) -> None:
    frame = FrameHandle(world.video, 1.0)
    given = {"video": world.handle, "frame": frame, "frames": [frame], **GIVEN.get(name, {})}
    possible = first_values(MODULES[name], given, TEXTS, world)
    assert len({repr(value) for value in possible}) == len(possible) >= 2


def test_an_answer_that_stands_in_for_a_call_that_was_never_made_has_a_confidence_of_its_own(
    world: VideoContext,
) -> None:
    """One that two calls share would show a program that this is no run."""
    question = Question("Which?", ("a", "b"))
    run = ModuleLibrary(world, question=question)
    asked = run.functions()["query_yn"]
    made = [asked(run.functions()["extract_frames"](run.video, 2), text) for text in ("First?", "Second?")]
    replay = ReplayLibrary(run, question, {})
    frames = replay.functions()["extract_frames"](replay.video, 2)
    first, other = (replay.functions()["query_yn"](frames, text) for text in ("First?", "Another?"))
    assert (first.answer, first.confidence) == (made[0].answer, made[0].confidence)
    assert other.answer == made[1].answer
    assert other.confidence != made[1].confidence
