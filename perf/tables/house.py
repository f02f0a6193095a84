"""The table of how the code is built: rooms, arrows, what a question crosses, names, comments and lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perf.tables.shared import Record, Table, Tables


def _crossed(way: int) -> Callable[[Any], str]:
    def counts(count: Any) -> str:
        crossed = count["ways"][way]
        return f"{len(crossed['files'])}, {len(crossed['stops'])}"

    return counts


def _types(count: Any) -> str:
    native, program = (count["ways"][way]["types"] for way in (0, 1))
    return ", ".join(str(len(types)) for types in (native["answer"], program["answer"], program["plan"]))


def _lines(area: str) -> Callable[[Any], str]:
    return lambda count: f"{count['lines'][area]:,}"


_ROWS: dict[str, Callable[[Any], str]] = {
    "rooms; doors": lambda count: f"{len(count['rooms'])}; {len(count['doors'])}",
    "floors": lambda count: str(len(count["floors"])),
    "arrows between rooms": lambda count: str(count["arrows"]),
    "circles among rooms; among files": lambda count: "; ".join(
        str(len(count["circles"][among])) for among in ("rooms", "files")
    ),
    "files, stops: a question to its trace, native": _crossed(0),
    "files, stops: the same by a program": _crossed(1),
    "files, stops: a row of `grpo.jsonl`, with a reply, to its rewards": _crossed(2),
    "types of a native answer, an answer by a program, the reply with the program": _types,
    "names that say nothing": lambda count: (
        f"{100 * count['names']['vague'] / count['names']['bound']:.1f} % of {count['names']['bound']:,}"
    ),
    "comment lines": lambda count: f"{100 * count['comment_lines'] / count['code_lines']:.1f} %",
    "settings: declared; their names": lambda count: "; ".join(
        str(count["settings"][figure]) for figure in ("declared", "names")
    ),
    "lines of a function: median; longest": lambda count: (
        f"{count['functions']['median']:g}; {count['functions']['longest']}"
    ),
    **{f"lines: {area}": _lines(area) for area in ("production", "perf", "tests", "docs", "launch")},
    "lines: README": lambda count: str(count["lines"]["README.md"]),
}


def _house(record: Record) -> Table:
    """The first and the last checkout of the file."""
    counts = [record[0], record[-1]]
    heads = [f"{when} ({count['commit']})" for when, count in zip(("before", "now"), counts, strict=True)]
    return ["", *heads], [[name, *map(cell, counts)] for name, cell in _ROWS.items()]


def _capabilities(record: Record) -> Table:
    """Lines and, in brackets, lines of code (`launch/code_budget.py PATH ...`)."""
    rows = [
        [
            row["capability"],
            *(f"{row[when][0]:,} [{row[when][1]:,}]" for when in ("before", "now")),
            row["elsewhere"],
        ]
        for row in record["rows"]
    ]
    heads = [f"{when} ({commit})" for when, commit in record["commits"].items()]
    return ["capability", *heads, "elsewhere"], rows


TABLES: Tables = {
    ("perf/house.json", "rooms, ways, names and lines"): _house,
    ("perf/capabilities.json", "by capability"): _capabilities,
}
