"""Errors that a program gets for wrong calls, and for a module whose model is missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.numbered import CHOICES, FixedIndex, ReadingBackbone, library, video
from videopro.modules.calls import VideoHandle
from videopro.modules.errors import ArgumentError, UnavailableError
from videopro.video import Video


# "V", "O" and "F" stand for the video, another one, and a frame.
@pytest.mark.parametrize(
    ("name", "args", "keywords", "message"),
    [
        ("trim_frames", ("V", 70, 80), {}, "70-80 s lies outside the video, which goes from 0 to 60 s"),
        ("trim_frames", ("V", 20, 10), {}, "start is 20 and end is 10"),
        ("trim_frames", ("V", "1:30", 95), {}, "start must be a time in seconds, as a number, not '1:30'"),
        ("trim_around", ("V", (10.0, 20.0)), {}, "timestamp must be a time in seconds, as a number"),
        ("trim_around", ("V", 90), {}, "75-105 s lies outside the video"),
        ("trim_around", ("V", float("nan")), {}, "timestamp must be a time in seconds"),
        ("trim_around", ("V", 5, 0), {}, "intervals must be a number of seconds above 0"),
        ("trim_before", ("V", 0), {}, "-30-0 s lies outside the video"),
        ("extract_frames", ("V",), {"num_frames": 0}, "must be a whole number of at least 1, not 0"),
        ("extract_frames", ("V",), {"num_frames": 1025}, "at most 1024 frames"),
        ("extract_frames", ("V",), {"num_frames": True}, "not True (bool)"),
        ("extract_frames", ("V",), {"fps": 2}, "keyword argument 'fps'; call extract_frames("),
        ("extract_frames", (), {}, "is missing 'video'; call extract_frames(video, num_frames=32)"),
        ("extract_frames", ("V", 3, 4), {}, "got 3 arguments"),
        ("extract_frames", ("V",), {"video_path": "V"}, "got 'video' twice"),
        ("extract_frames", ("/videos/a.mp4",), {}, "video must be the video that the program was given"),
        ("extract_frames", ("O",), {}, "another video"),
        ("query_mc", ([], "What?", CHOICES), {}, "frames is empty: no frame to look at"),
        ("query_mc", ([[]], "What?", CHOICES), {}, "frames is empty: no frame to look at"),
        ("query_mc", (None, "What?", CHOICES), {}, "frames must be a frame or a list of frames, not None"),
        ("query_mc", (["F", "x"], "What?", CHOICES), {}, "frames must hold frames only, not 'x' (str)"),
        ("query_mc", ("F", "", CHOICES), {}, "question is an empty text"),
        ("query_mc", ("F", "What?", "A. red B. blue"), {}, "choices must be a list of 2 to 10 texts"),
        ("query_mc", ("F", "What?", {"A": "red", "B": "blue"}), {}, "pass list(choices.values())"),
        ("query_mc", ("F", "What?", ["red"]), {}, "choices has 1 options; give 2 to 10"),
        ("query_mc", ("F", "What?", ["red", ""]), {}, "choices must hold texts that are not empty"),
        ("query_mc", ("F", "What?", ["red", None]), {}, "not None (NoneType)"),
        ("query_count", ("F", "people"), {"most": 10}, "most is 10; it must be 1 to 9"),
        ("get_informative_clips", ("V", ["a", "b"]), {}, "query must be a text, not ['a', 'b'] (list)"),
        ("get_informative_clips", ("V", "a"), {"top_k": 2.5}, "top_k must be a whole number of at least 1"),
        ("crop", ("F", [5, 5, 5, 9]), {}, "holds nothing of the frame, which is 128 wide and 64 high"),
        ("crop", ("F", [200, 0, 300, 10]), {}, "holds nothing of the frame"),
        ("crop", ("F", [10, 10, 10.0000001, 40]), {}, "holds nothing of the frame"),
        ("crop", ("F", [1, 2, 3]), {}, "four numbers [x0, y0, x1, y1]"),
        ("crop", (["F"], [1, 2, 3, 4]), {}, "frame must be one frame, not a list of 1"),
        ("crop_left", ("V",), {}, "frame must be a frame"),
        ("make_result", (["B"],), {}, "answer must be a letter, not list"),
        ("make_result", ("B", "high"), {}, "confidence must be a number from 0 to 1, not str"),
    ],
)  # fmt: skip
def test_wrong_calls_say_how_to_fix_them(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any], message: str
) -> None:
    lib = library(index=FixedIndex({}))
    fns = lib.functions()
    (frame,) = fns["extract_frames"](lib.video, 1)

    other = Video.open(video().path)
    other.id = "another"
    stands_for = {"V": lib.video, "O": VideoHandle(other), "F": frame}

    def real(value: Any) -> Any:
        if isinstance(value, list):
            return [real(item) for item in value]
        return stands_for.get(value, value) if isinstance(value, str) else value

    with pytest.raises(ArgumentError) as caught:
        fns[name](*map(real, args), **{key: real(value) for key, value in keywords.items()})
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{name}()")
    assert lib.calls[-1].result == f"ArgumentError: {caught.value}"


def test_choices_that_carry_their_letters_do_not_get_two() -> None:
    backbone = ReadingBackbone()
    lib = library(backbone)
    fns = lib.functions()
    fns["query_native"](lib.video, "Which?", ["A. red", "B. A. Milne", "C. blue"])
    fns["query_native"](lib.video, "Which?", ["A. red", "blue"])
    assert "A. red\nB. A. Milne\nC. blue\n" in backbone.prompts[0]
    assert "A. A. red\nB. blue\n" in backbone.prompts[1]


def test_a_module_without_its_model_says_so_and_is_not_in_the_reference() -> None:
    lib = library(subtitles=None)
    fns = lib.functions()
    with pytest.raises(UnavailableError, match="no subtitles"):
        fns["get_subtitle_hints"](lib.video, "What?", list(CHOICES))
    with pytest.raises(UnavailableError, match="no object detector"):
        fns["detect_object"](fns["extract_frames"](lib.video, 1)[0], "cat")
    names = ("get_subtitle_hints", "get_informative_subtitles", "get_informative_clips", "detect_object")
    assert [name for name in (*names, "query_native") if f"- `{name}(" in lib.reference()] == ["query_native"]
    assert "- `get_informative_subtitles(" in library().reference()
