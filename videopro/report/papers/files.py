"""Reads the published tables of papers: a YAML file for each paper, beside this one.

`tables` are filled with our runs: a row is a list of its label and its published values. Where runs of ours
belong in it, it also has the `settings` in which they differ from the paper's own ({}: in none; `any_of`:
values that come to the same). `measures` are our columns: names of `MEASURES`, groups of a benchmark as
`{kind: groups}`, and its own metrics as `{metric: names}`; a mapping in place of the list gives other
headings. `published` are tables that are shown as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from videopro.cli import read_yaml
from videopro.report.papers.spec import (
    MEASURES,
    AnyOf,
    Measure,
    Paper,
    PaperRow,
    PaperTable,
    in_group,
    metric,
    published_cell,
)
from videopro.report.table import AS_PUBLISHED, Table


def read_paper(name: str) -> tuple[Paper, tuple[PaperTable, ...]]:
    """A paper and those of its tables that our runs fill."""
    content = _read(name)
    paper = Paper(content["method"], content["title"], _settings(content["ablated"]))
    return paper, tuple(_table(paper, **table) for table in content["tables"])


def read_published(name: str) -> dict[str, Table]:
    """A paper's tables as it printed them, each under our name for it."""
    return {
        key: Table(
            table.get("title", "As published"),
            tuple(table["columns"]),
            tuple(tuple(map(published_cell, row)) for row in table["rows"]),
            tuple(table["notes"]),
            suffix=AS_PUBLISHED,
        )
        for key, table in _read(name)["published"].items()
    }


def _read(name: str) -> dict[str, Any]:
    return read_yaml(Path(__file__).with_name(f"{name}.yaml"))


def _table(
    paper: Paper,
    *,
    columns: Sequence[str],
    rows: Sequence[Any],
    measures: Sequence[Any],
    varied: Sequence[str] = (),
    notes: Sequence[str] = (),
    **options: Any,
) -> PaperTable:
    return PaperTable(
        paper,
        columns=tuple(columns),
        rows=tuple(_row(**row) if isinstance(row, dict) else _row(row) for row in rows),
        measures=tuple(_measures(measures)),
        varied=tuple(varied),
        notes=tuple(notes),
        **options,
    )


def _row(row: Sequence[Any], settings: Mapping[str, Any] | None = None) -> PaperRow:
    label, *published = row
    return PaperRow(label, tuple(published), None if settings is None else _settings(settings))


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the types that methods give them: tuples for lists."""

    def value(written: Any) -> Any:
        if isinstance(written, dict):
            return AnyOf(tuple(written["any_of"]))
        return tuple(written) if isinstance(written, list) else written

    return {name: value(written) for name, written in settings.items()}


def _measures(written: Sequence[Any]) -> Iterator[Measure]:
    for entry in written:
        if isinstance(entry, str):
            yield MEASURES[entry]
            continue
        ((kind, names),) = entry.items()
        # A list gives each column the benchmark's own name.
        by_head = names if isinstance(names, dict) else {name: name for name in names}
        for head, of in by_head.items():
            groups = of if isinstance(of, list) else [of]
            yield Measure(head, metric(of) if kind == "metric" else in_group(kind, *groups))
