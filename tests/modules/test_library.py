"""The module library: the calls of the public release fit it, and one registration adds a module."""

from __future__ import annotations

import pytest

from tests.support.modules_world import library
from videopro.modules.calls import MODULES, CallContext, Count, FrameHandle, Text, module
from videopro.modules.errors import ArgumentError

# The runtime API of the public release, with its keywords and defaults (and the paper's, Listing 1).
RELEASE = {
    "query_native": "video, question, choices",
    "query_mc": "frames, question, choices",
    "query_frames": "frames, question",
    "query_yn": "frames, question",
    "get_informative_clips": "video, query, top_k=3, total_duration=None",
    "get_informative_subtitles": "video, query, top_k=1, total_duration=None",
    "get_subtitle_hints": "video, question, choices, duration=None, word_number=300",
    "extract_frames": "video, num_frames=32",
    "trim_frames": "video, start, end, num_frames=64",
    "trim_around": "video, timestamp, intervals=30, num_frames=64",
    "trim_before": "video, timestamp, intervals=30, num_frames=64",
    "trim_after": "video, timestamp, intervals=30, num_frames=64",
    "detect_object": "frame, text, box_threshold=0.5, text_threshold=0.25",
    "run_ocr": "frame",
    "crop": "frame, box",
    "make_result": "answer='', confidence=0.0, raw_output='', **metadata",
    "finalize_result": "answer='', confidence=0.0, raw_output='', **metadata",
    "normalize_model_result": "result, choices=None, metadata=None",
    **dict.fromkeys(
        [
            "crop_left",
            "crop_right",
            "crop_top",
            "crop_bottom",
            "crop_left_top",
            "crop_right_top",
            "crop_left_bottom",
            "crop_right_bottom",
        ],
        "frame",
    ),
}


@pytest.mark.parametrize("name", RELEASE)
def test_every_call_of_the_release_fits(name: str) -> None:
    signature = MODULES[name].signature
    assert signature.startswith(f"{name}({RELEASE[name].split(', **')[0]}")


def test_only_two_modules_are_registered_beyond_the_release() -> None:
    assert set(MODULES) == {*RELEASE, "query_count", "track_object"}


def test_planners_read_of_one_way_to_state_an_answer() -> None:
    reference = library().reference()
    assert "make_result" in reference
    assert "finalize_result" not in reference
    assert "normalize_model_result" not in reference


def test_one_registration_adds_a_module() -> None:
    @module(family="localization")
    def first_frames(call: CallContext, word: Text, count: Count = 2) -> list[FrameHandle]:
        """Give the first frames.

        Returns frames.
        """
        return [call.context.frame(float(i)) for i in range(count)]

    # A plug-in's is offered only where it is named.
    assert "first_frames" not in library().functions()
    assert "first_frames" not in library().reference()
    lib = library(extra=("first_frames",))
    assert [frame.time for frame in lib.functions()["first_frames"]("a", count=3)] == [0.0, 1.0, 2.0]
    with pytest.raises(ArgumentError, match="word is an empty text"):
        lib.functions()["first_frames"](" ")
    assert "`first_frames(word, count=2)`" in lib.reference()
    assert lib.calls[0].fn == "first_frames"


def test_an_invalid_registration_is_refused() -> None:
    def described(call: CallContext, word: Text) -> str:
        """Describe."""
        return word

    def silent(call: CallContext, word: Text) -> str:
        return word

    def loose(call: CallContext, word: str) -> str:
        """Do."""
        return word

    for function, options, message in (
        (described, {"family": "magic"}, "family 'magic'"),
        (described, {"family": "context", "needs": ("money",)}, "need 'money'"),
        (silent, {"family": "context"}, "needs a docstring"),
        (loose, {"family": "context"}, "'word' must have an argument type"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            module(**options)(function)  # type: ignore[arg-type]
    described.__name__ = "extract_frames"
    with pytest.raises(
        ValueError, match=r"'extract_frames' is already registered, by videopro\.modules\.\w+$"
    ):
        module(family="context")(described)
