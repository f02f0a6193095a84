"""The tables and texts of README and docs that are made of recorded results, by Jinja templates.

A page names its table by `<!-- from FILE: TITLE -->`, and a paragraph or a list by `<!-- said from FILE:
TITLE -->`. `launch/recorded_tables.py` writes what stands below, and a test compares it. FILE, relative to
the repository, is a record; a template of `perf/pages` begins with `{# FILE: TITLE #}` and gets its content
as `record`. What stands before a file's first template is part of each of them.
"""

from __future__ import annotations

import json
import re
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from perf import ROOT, stored
from videopro.data_synthesis.plan import FILTER_HEADS, PLAN_HEADS, filter_rows, plan_rows
from videopro.pocket.teacher.faults import SHARES
from videopro.pocket.teacher.teacher import REFINED_SHARE
from videopro.traces.scoring import percent, percent_interval

MARK = re.compile(r"<!-- from (?P<file>\S+): (?P<title>[^>]+) -->\n(?P<table>(?:\|.*\n)+)")
"""A table of a page, below the comment that names what it is made of."""
STATEMENT = re.compile(r"<!-- said from (?P<file>\S+): (?P<title>[^>]+) -->\n(?P<text>(?:[^\n]+\n)+)")
"""A paragraph or a list of a page, below the comment that names what it is made of."""
_SECTION = re.compile(r"^\{# (?P<file>\S+): (?P<title>.+) #\}\n", re.MULTILINE)


@cache
def read(file: str) -> Any:
    """The content of a file of results, relative to the repository: JSON, YAML or text."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".json"):
        return json.loads(text)
    return yaml.safe_load(text) if file.endswith(".yaml") else text


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _noticed(outcomes: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> str:
    """How many of these mutants a test noticed, of those whose lines the state has."""
    tried = [outcomes[name]["outcome"] for name in names if name in outcomes]
    return f"{tried.count('caught')} of {len(tried) - tried.count('no such line')}"


@cache
def templates() -> Mapping[tuple[str, str], jinja2.Template]:
    """The templates by file and title."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, line_statement_prefix="%"
    )
    environment.filters.update(
        f=format,
        percent=percent,
        after=lambda text, mark: text.partition(mark)[2],
        at=lambda mapping, key: mapping.get(key),
        of=lambda key, mapping: mapping[key],
        noticed=_noticed,
        seconds=lambda cases: sum(case.get("seconds", 0.0) for case in cases.values()),
    )
    functions: Sequence[Callable[..., Any]] = (read, table, listed, percent, percent_interval, filter_rows,
        plan_rows, *stored.FUNCTIONS)  # fmt: skip
    environment.globals.update({function.__name__: function for function in functions})
    environment.globals.update(
        mean=statistics.mean,
        stdev=statistics.stdev,
        FILTER_HEADS=FILTER_HEADS,
        PLAN_HEADS=PLAN_HEADS,
        FAULTS=sum(SHARES.values()),
        REFINED_SHARE=REFINED_SHARE,
        SHIPPED=stored.SHIPPED,
    )
    found = {}
    for page in sorted((ROOT / "perf" / "pages").glob("*.md")):
        head, *parts = _SECTION.split(page.read_text(encoding="utf-8"))
        for file, title, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            found[file, title] = environment.from_string(head + text)
    return found


def rendered(file: str, title: str, record: Any = None) -> str:
    """What a template makes of its record, or of one that was just made. Raises KeyError without a
    template."""
    text = templates()[file, title].render(record=read(file) if record is None else record)
    return re.sub(r"\n\n+(?=\|)", "\n", text.strip())


def lines_of(file: str, title: str) -> list[str]:
    """The lines of a table, head first.

    `file`: that of a template; or a script that computes its table; or a Markdown file of tables with bold
    titles, relative to docs/results. Raises KeyError for an unknown table.
    """
    if file == "tests/benchmarks/official_scores.py":
        # Computed from its recorded files.
        from tests.benchmarks.official_scores import table as computed

        return computed().splitlines()
    if (file, title) in templates():
        return rendered(file, title).splitlines()
    if file.endswith(".md"):
        return titled(read(f"docs/results/{file}"), title)
    # Imported here, because it loads torch.
    from perf.battery.results import tables

    return titled(tables(ROOT / file), title)


def titled(text: str, title: str) -> list[str]:
    """The lines of the Markdown table below a bold title.

    Raises KeyError if not exactly one table has this title.
    """
    parts = text.split(f"**{title}**\n\n")
    match = re.match(r"(?:\|.*(?:\n|$))+", parts[-1])
    if len(parts) != 2 or match is None:
        raise KeyError(f"{title!r} is the title of {len(parts) - 1} tables")
    return match[0].splitlines()


def statement(file: str, title: str) -> str:
    """A paragraph or a list as it stands on a page, in lines of at most 110 characters."""
    return "".join(
        textwrap.fill(
            " ".join(item.split()),
            110,
            break_long_words=False,
            break_on_hyphens=False,
            subsequent_indent="  " if item.startswith("- ") else "",
        )
        + "\n"
        for item in re.split(r"\n(?=- )", rendered(file, title))
    )


def print_tables(file: str, record: Any) -> None:
    """Print what pages show of a record that was just made; `file`: as they name it."""
    for name, title in templates():
        if name == file:
            print("\n".join(["", title, "", rendered(name, title, record)]))


def pages() -> list[Path]:
    """README and every page of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
