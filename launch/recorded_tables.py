"""Copies the recorded tables of docs/results into README.md and the pages of docs that show them.

    python launch/recorded_tables.py

A table below `<!-- from FILE: TITLE -->` keeps its choice of rows, by their names; the rest is FILE's.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_MARK = re.compile(r"(<!-- from (?P<file>\S+): (?P<title>[^>]+) -->\n)(?P<table>(?:\|.*\n)+)")


def main() -> None:
    """Rewrite the pages that differ, and name them."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        now = _MARK.sub(_copied, text)
        if now != text:
            page.write_text(now, encoding="utf-8")
            print(page.relative_to(ROOT))


def _copied(mark: re.Match[str]) -> str:
    head, rule, *rows = _recorded(mark["file"], mark["title"])
    by_name = {_name(row): row for row in rows}
    wanted = [by_name[_name(row)] for row in mark["table"].splitlines()[2:]]
    return mark[1] + "".join(f"{line}\n" for line in (head, rule, *wanted))


def _recorded(file: str, title: str) -> list[str]:
    text = (ROOT / "docs" / "results" / file).read_text(encoding="utf-8")
    _, _, after = text.partition(f"**{title}**\n\n")
    return [line for line in after.partition("\n\n")[0].splitlines() if line.startswith("|")]


def _name(row: str) -> str:
    return row.split(" | ")[0]


if __name__ == "__main__":
    main()
