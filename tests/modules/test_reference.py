"""The API reference is made from the code, and docs/modules.md is what the code makes now."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import ROOT
from videopro.errors import ConfigError
from videopro.modules import calls
from videopro.modules.__main__ import argument_table, handle_table
from videopro.modules.calls import FAMILIES, HANDLES, MODULES
from videopro.modules.library import ModuleLibrary
from videopro.modules.reference import api_reference, named_modules, reference_text


def test_the_docs_are_current() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "videopro.modules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs" / "modules.md").read_text() == made.stdout, (
        "run: python -m videopro.modules > docs/modules.md"
    )


def test_every_module_and_handle_is_listed_once_under_its_family() -> None:
    text = api_reference(list(MODULES.values()))
    parts = {part.partition("\n")[0]: part for part in text.split("## ")[1:]}
    assert list(parts) == [*FAMILIES.values(), "What a program holds", "What a program may import"]
    documented = [module for module in MODULES.values() if module.is_documented]
    assert len(documented) == len(MODULES) - 2
    for module in documented:
        own = [line for line in text.splitlines() if line.startswith(f"- `{module.name}(")]
        assert len(own) == 1
        assert own[0] in parts[FAMILIES[module.family]]
        assert own[0].startswith(f"- `{module.signature}`: ")
    for kind in HANDLES:
        assert f"- {kind.__program_kind__} ({', '.join(kind.__program_fields__)}): " in text


def test_the_prelude_is_python_that_gives_handles_their_behaviour() -> None:
    class Handle:
        pass

    names: dict[str, object] = {"Handle": Handle}
    exec(compile(ModuleLibrary.prelude, "<prelude>", "exec"), names)
    made = {name for name, value in names.items() if isinstance(value, type) and issubclass(value, Handle)}
    assert made - {"Handle"} <= {kind.__program_kind__ for kind in HANDLES}


def cells(table: str) -> dict[str, list[str]]:
    """The rows of a table by their first cell. A bar in a cell is written `\\|`."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {first: others for first, *others in rows[2:]}


def test_the_table_of_handles_says_what_each_holds_and_what_a_program_can_do_with_it() -> None:
    rows = cells(handle_table())
    assert list(rows) == [kind.__program_kind__ for kind in HANDLES]
    for kind in HANDLES:
        names = [field.partition(":")[0].strip("`") for field in rows[kind.__program_kind__][0].split("`, `")]
        assert tuple(names) == kind.__program_fields__
    # An optional box in a tuple, an inherited field, a property and a method.
    assert r"`boxes: tuple[tuple[float, float, float, float] \| None, ...]`" in rows["Track"][0]
    assert r"`score: float \| None`" in rows["Line"][0]
    assert "`size: tuple[int, int]`" in rows["Frame"][0]
    assert "`frame.crop(box)`" in rows["Frame"][1]
    assert "`get`" in rows["Answer"][1]


def test_the_table_of_arguments_has_every_type_that_a_module_can_be_annotated_with() -> None:
    rows = cells(argument_table())
    exported = {name for name in dir(calls) if hasattr(getattr(calls, name), "__metadata__")}
    assert set(rows) == {f"`{name}`" for name in exported}
    assert rows["`Segment`"][1:] == [r"`VideoHandle \| ClipHandle`", "`video`"]
    assert rows["`Frames`"][1:] == ["`tuple[FrameHandle, ...]`", "`frames`"]
    assert rows["`Count`"][1:] == ["`int`", "`most`, `top_k`"]
    assert all(row[0] for row in rows.values())


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
    whole = reference_text("compact", list(MODULES.values()))
    names = [line.split("`")[1].partition("(")[0] for line in whole.splitlines()]
    assert set(names) == {module.name for module in MODULES.values() if module.is_documented}
    assert len(whole) < 4000 < len(api_reference(list(MODULES.values())))


def test_times_that_count_from_a_clip_are_told_in_every_form() -> None:
    said = "Times in the trims of a clip are seconds from the start of that clip."
    for form in ("signatures", "compact", "full"):
        assert said in reference_text(form, [MODULES["trim_frames"]], "clip")  # type: ignore[arg-type]
        assert said not in reference_text(form, [MODULES["trim_frames"]])  # type: ignore[arg-type]
        assert said not in reference_text(form, [MODULES["run_ocr"]], "clip")  # type: ignore[arg-type]


def test_a_module_that_is_gone_is_named() -> None:
    assert named_modules(["run_ocr"]) == [MODULES["run_ocr"]]
    with pytest.raises(ConfigError, match="module 'read_signs': there was one when the records were made"):
        named_modules(["run_ocr", "read_signs"])
