"""Tables of README and docs that say which recorded file they are from: every line is in that file.

`<!-- from FILE: TITLE -->` stands above such a table; FILE is relative to docs/results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.old_folders import extract
from tests.support.rounding import rounded
from videopro import seeds

RESULTS = ROOT / "docs" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_MARK = re.compile(r"<!-- from (?P<file>\S+): (?P<title>[^>]+) -->\n(?P<table>(?:\|.*\n)+)")


def marked() -> list[tuple[Path, str, str, str]]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        marks = list(_MARK.finditer(text))
        assert len(marks) == text.count("<!-- from "), f"{page}: a mark without its table"
        found += [(page, mark["file"], mark["title"], mark["table"]) for mark in marks]
    return found


def tables_in(path: Path) -> dict[str, str]:
    parts = re.split(r"^\*\*(.+)\*\*\n\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        title: re.match(r"(?:\|.*\n)+", body)[0]  # type: ignore[index]
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.parametrize(("page", "file", "title", "table"), marked(), ids=lambda value: str(value)[-60:])
def test_a_table_is_the_recorded_one(page: Path, file: str, title: str, table: str) -> None:
    recorded = tables_in(RESULTS / file)[title].splitlines()
    lines = table.splitlines()
    assert lines[:2] == recorded[:2]
    assert [line for line in lines[2:] if line not in recorded] == []


def test_recorded_tables_are_what_the_stored_traces_give(tmp_path: Path) -> None:
    """One row of three seeds and its gap, from the archive to the file."""
    names = [f"{name}-videopro-{seed}" for name in ("few", "grpo") for seed in (0, 1, 2)]
    extract(RESULTS / "pocket-grpo-240" / "traces.tar.xz", tmp_path, [*names, "native"])
    of = [
        ",".join(str(tmp_path / f"{name}-videopro-{seed}") for seed in (0, 1, 2)) for name in ("few", "grpo")
    ]
    output = tmp_path / "table.json"
    argv = [f"SFT on 240 questions={of[0]}", f"SFT + GRPO={of[1]}", "--oracle", str(tmp_path / "native")]
    assert seeds.main([*argv, "--output", str(output)]) == 0
    made = json.loads(output.read_text())
    recorded = json.loads((RESULTS / "pocket-grpo-240" / "last.json").read_text())
    by_name = {row["name"]: row for row in recorded}
    for row in made:
        for key, value in row.items():
            if key != "runs":
                assert rounded(by_name[row["name"]][key]) == rounded(value), (row["name"], key)
