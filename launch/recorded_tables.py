"""Updates the tables of README and docs that come from docs/results: python launch/recorded_tables.py.

`<!-- from FILE: TITLE -->` is above such a table (tests/test_recorded_tables.py). The page keeps its rows, by
name and in order; the cells and the head become those of the file.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_MARK = re.compile(r"(<!-- from (?P<file>\S+): (?P<title>[^>]+) -->\n)(?P<table>(?:\|.*\n)+)")


def recorded(file: str, title: str) -> list[str]:
    """The lines of a recorded table."""
    text = (ROOT / "docs" / "results" / file).read_text(encoding="utf-8")
    body = text.split(f"**{title}**\n\n", 1)[1]
    return body[: re.match(r"(?:\|.*\n)+", body).end()].splitlines()  # type: ignore[union-attr]


def updated(mark: re.Match[str]) -> str:
    """The mark and its table as recorded."""
    lines = recorded(mark["file"], mark["title"])
    rows = {line.split("|")[1]: line for line in lines[2:]}
    names = [line.split("|")[1] for line in mark["table"].splitlines()[2:]]
    return mark[1] + "".join(f"{line}\n" for line in [*lines[:2], *(rows[name] for name in names)])


for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
    text = page.read_text(encoding="utf-8")
    new = _MARK.sub(updated, text)
    if new != text:
        page.write_text(new, encoding="utf-8")
        print(page.relative_to(ROOT))
