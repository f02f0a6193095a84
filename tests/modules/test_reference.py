"""The API reference is made from the code, and docs/modules.md is what the code makes now."""

from __future__ import annotations

import pytest

from tests.support import ROOT
from videopro.errors import ConfigError
from videopro.modules.__main__ import main as print_docs
from videopro.modules.calls import MODULES
from videopro.modules.reference import api_reference, named_modules, reference_text


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
