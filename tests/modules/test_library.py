"""The module library: the calls of the public release fit it, and one registration adds a module."""

from __future__ import annotations

import re

import pytest

from tests.support.numbered import library
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
    "make_result": "answer='', confidence=0.0, raw_output=''",
    "finalize_result": "answer='', confidence=0.0, raw_output=''",
    "normalize_model_result": "result, choices=None, metadata=None",
    **{f"crop_{part}": "frame" for part in ("left", "right", "top", "bottom")},
    **{f"crop_{part}": "frame" for part in ("left_top", "right_top", "left_bottom", "right_bottom")},
}


def test_every_call_of_the_release_fits_and_only_two_modules_are_beyond_it() -> None:
    for name, signature in RELEASE.items():
        assert MODULES[name].signature.startswith(f"{name}({signature}")
    assert set(MODULES) == {*RELEASE, "query_count", "track_object"}
    # Planners read of one way to state an answer.
    reference = library().reference()
    assert "make_result" in reference
    assert not {"finalize_result", "normalize_model_result"} & set(re.findall(r"\w+", reference))


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

    def taken(call: CallContext, word: Text) -> str:
        """Do."""
        return word

    taken.__name__ = "extract_frames"
    for function, options, named in (
        (described, {"family": "magic"}, "'magic'"),
        (described, {"family": "context", "needs": ("money",)}, "'money'"),
        (silent, {"family": "context"}, "'silent'"),
        (loose, {"family": "context"}, "'word'"),
        (taken, {"family": "context"}, r"'extract_frames' .* videopro\.modules\.\w+$"),
    ):
        with pytest.raises((ValueError, TypeError), match=named):
            module(**options)(function)  # type: ignore[arg-type]
