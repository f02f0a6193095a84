"""The module library and its reference: the calls of the public release fit, one registration adds a module,
and docs/modules.md is what the code makes now."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT
from tests.support.numbered import library
from videopro.errors import ConfigError
from videopro.modules.__main__ import main as print_docs
from videopro.modules.calls import MODULES, CallContext, Text, module
from videopro.modules.reference import api_reference, named_modules, reference_text

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


# ---- the reference -----------------------------------------------------------------------------------------


def test_the_docs_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    print_docs()
    made = capsys.readouterr().out
    assert (ROOT / "docs" / "modules.md").read_text() == made, (
        "run: python -m videopro.modules > docs/modules.md"
    )


def test_the_compact_reference_has_a_line_for_each_module_that_is_there() -> None:
    modules = [MODULES[name] for name in ("run_ocr", "get_informative_clips", "finalize_result")]
    assert reference_text("signatures", modules).splitlines() == [
        "- `get_informative_clips(video, query, top_k=3, total_duration=None)`",
        "- `run_ocr(frame)`",
    ]
    assert reference_text("compact", modules).splitlines() == [
        "- `get_informative_clips(video, query, top_k=3, total_duration=None)`: Find the clips (10 seconds "
        "each) that show what `query` describes -> (intervals, clips)",
        "- `run_ocr(frame)`: Read the text that is written in one frame -> the text, one piece a line from "
        'top to bottom, or "" if there is none',
    ]
    assert reference_text("none", modules) == ""
    assert reference_text("full", modules) == api_reference(modules)


def test_times_that_count_from_a_clip_are_told_in_every_form() -> None:
    said = "Times in the trims of a clip are seconds from the start of that clip."
    for form in ("signatures", "compact", "full"):
        assert said in reference_text(form, [MODULES["trim_frames"]], "clip")  # type: ignore[arg-type]
        assert said not in reference_text(form, [MODULES["trim_frames"]])  # type: ignore[arg-type]
        assert said not in reference_text(form, [MODULES["run_ocr"]], "clip")  # type: ignore[arg-type]


def test_a_module_that_is_gone_is_named() -> None:
    assert named_modules(["run_ocr"]) == [MODULES["run_ocr"]]
    with pytest.raises(ConfigError, match="'read_signs'"):
        named_modules(["run_ocr", "read_signs"])
