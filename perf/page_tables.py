"""The tables and statements of README and docs that are made of recorded results.

A page names its table by `<!-- from FILE: TITLE -->`; `launch/recorded_tables.py` writes the table below it,
and a test compares each cell. FILE is relative to the repository. `perf/tables` has a function for each table
that is made of a file in JSON. `<!-- said from FILE: TITLE -->` names a paragraph or a list in the same way,
and `perf/statements` has a function for each.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.statements import STATEMENTS
from perf.tables import TABLES, titled


def lines_of(file: str, title: str) -> list[str]:
    """The lines of a table, head first.

    `file`: a file of results, or the script that computes the table of such, relative to the repository; or a
    Markdown file of tables with bold titles, relative to docs/results. Raises KeyError for an unknown table.
    """
    if file == "tests/benchmarks/official_scores.py":
        # Computed from its recorded files.
        from tests.benchmarks.official_scores import table

        return table().splitlines()
    if file.endswith(".md") and (file, title) not in TABLES:
        return titled((ROOT / "docs" / "results" / file).read_text(encoding="utf-8"), title)
    if file in ("perf/gpu.json", "perf/gpu_steps.json", "perf/shapes_2b.json"):
        # Imported here, because it loads torch.
        from perf.battery.results import tables

        return titled(tables(ROOT / file), title)
    text = (ROOT / file).read_text(encoding="utf-8")
    return _markdown(*TABLES[file, title](json.loads(text) if file.endswith(".json") else text))


def print_tables(file: str, record: Any) -> None:
    """Print what a page shows of a record that was just made; `file`: as pages name it."""
    for (name, title), table in TABLES.items():
        if name == file:
            print("\n".join(["", title, "", *_markdown(*table(record))]))


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(heads), "|" + "---|" * len(heads), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


MARK = re.compile(r"<!-- from (?P<file>\S+): (?P<title>[^>]+) -->\n(?P<table>(?:\|.*\n)+)")
"""A table of a page, below the comment that names what it is made of."""


STATEMENT = re.compile(r"<!-- said from (?P<file>\S+): (?P<title>[^>]+) -->\n(?P<text>(?:[^\n]+\n)+)")
"""A paragraph or a list of a page, below the comment that names what it is made of."""


def statement(file: str, title: str) -> str:
    """A paragraph or a list as it stands on a page, in lines of at most 110 characters."""
    texts = STATEMENTS[file, title]()
    return "".join(
        textwrap.fill(
            " ".join(text.split()),
            110,
            break_long_words=False,
            break_on_hyphens=False,
            subsequent_indent="  " if text.startswith("- ") else "",
        )
        + "\n"
        for text in texts
    )


def pages() -> list[Path]:
    """README and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
