"""Updates the tables and statements of README and docs that are made of recorded results.

    python launch/recorded_tables.py

`<!-- from FILE: TITLE -->` is above such a table (perf/recorded.py). The page keeps its rows, by name and
in order; the cells and the head become those of the file. A page that shows no row yet gets all of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.recorded import MARK, STATEMENT, lines_of, pages, statement


def updated(mark: re.Match[str]) -> str:
    """The mark and its table as recorded. Raises SystemExit for a row that the file lacks."""
    lines = lines_of(mark["file"], mark["title"])
    rows = {_name(line): line for line in lines[2:]}
    if len(rows) < len(lines) - 2:  # names that occur twice cannot be chosen by
        return mark[0].removesuffix(mark["table"]) + "".join(f"{line}\n" for line in lines)
    names = [_name(line) for line in mark["table"].splitlines()[2:]] or list(rows)
    missing = [name for name in names if name not in rows]
    if missing:
        raise SystemExit(
            f"{mark['file']}, {mark['title']}: has no row {missing[0]!r}; its rows: {list(rows)}"
        )
    head = f"<!-- from {mark['file']}: {mark['title']} -->\n"
    return head + "".join(f"{line}\n" for line in [*lines[:2], *(rows[name] for name in names)])


def restated(mark: re.Match[str]) -> str:
    """The mark and its text as recorded."""
    return mark[0].removesuffix(mark["text"]) + statement(mark["file"], mark["title"])


def _name(line: str) -> str:
    return line.split("|")[1].strip()


for page in pages():
    text = page.read_text(encoding="utf-8")
    new = STATEMENT.sub(restated, MARK.sub(updated, text))
    if new != text:
        page.write_text(new, encoding="utf-8")
        print(page.relative_to(ROOT))
