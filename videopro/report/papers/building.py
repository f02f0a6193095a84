"""Fill a paper's table from runs: the published values stay beside ours, marked as the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from videopro.report.papers.spec import Measure, PaperRow, PaperTable, Published
from videopro.report.runs import ReportRun, by_dataset, protocol_notes, question_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table

NOTE = (
    "Published: the paper's own numbers, of other models and, unless the benchmark's name says otherwise, "
    "other questions; nothing is compared with them. Accuracy with a 95 % interval clustered by video."
)


def build_table(table: PaperTable, runs: Sequence[ReportRun]) -> Section:
    """The table, with a block of rows for each dataset. Raises MissingRuns if no run of the method is given,
    or none of its ablations although the table is about them."""
    blocks = []
    filled: set[str] = set()
    for data, own in by_dataset(runs).items():
        placed = list(_place(table, own))
        found = {row.label for row, there in placed if there and row.settings is not None and not row.method}
        if found:
            filled |= found
            blocks.append((data.title, placed))
    own_rows = [row for row in table.own_rows if not row.method]
    extra = any(row.label not in {r.label for r in table.rows} for _, rows in blocks for row, _ in rows)
    if not blocks or (len(own_rows) > 1 and len(filled) < 2 and not extra):
        raise MissingRuns(f"{table.name}: {_lacking(table, filled)}")
    measures = [
        measure
        for measure in table.measures
        if any(measure.of(run) is not None for _, rows in blocks for _, there in rows for run in there)
    ]
    rows = [row for title, placed in blocks for row in _rows(title, table, placed, measures)]
    heads = (BENCHMARK, "", *(measure.head for measure in measures), *(f"{head}, published" for head in table.columns))
    empty = [row for row in own_rows if row.label not in filled]
    notes = [*table.notes, NOTE]
    if empty and len(own_rows) > 1:
        notes.append(f"Rows without ours: {_lacking(table, filled)}.")
    return Section(
        table.name, table.title, table.source, (Table(table.title, heads, tuple(rows), tuple(notes)),),
        notes=(*protocol_notes(runs), *question_notes(runs)),
    )  # fmt: skip


def own_runs(
    runs: Sequence[ReportRun], method: str, ablated: Mapping[str, Any], changed: Mapping[str, Any]
) -> list[ReportRun]:
    """The runs of a method whose ablated settings are the paper's, except for `changed`."""
    wanted = {**ablated, **changed}
    return [
        run
        for run in runs
        if run.method == method
        and all(setting(run, name, ablated.get(name)) == value for name, value in wanted.items())
    ]


def setting(run: ReportRun, name: str, default: Any = None) -> Any:
    """A setting of the run's method; `default` where an older version had no such setting."""
    return run.identity["method"].get(name, default)


def command(method: str, changed: Mapping[str, Any]) -> str:
    """The command that makes a run."""
    options = " ".join(f"{name}={_word(value)}" for name, value in changed.items())
    return f"python -m videopro.infer --method {method}{f' --options {options}' if options else ''} ..."


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def _place(
    table: PaperTable, runs: Sequence[ReportRun]
) -> Iterator[tuple[PaperRow, list[ReportRun]]]:
    """The paper's rows with our runs; then rows for other values of `varied`, and for other methods."""
    placed: set[str] = set()
    for row in table.rows:
        there: list[ReportRun] = []
        if row.settings is not None:
            method = row.method or table.method
            there = own_runs(runs, method, table.ablated if not row.method else {}, row.settings)
        placed |= {str(run.path) for run in there}
        yield row, there
    if table.varied:
        for run in runs:
            value = setting(run, table.varied, table.ablated.get(table.varied))
            same = own_runs([run], table.method, table.ablated, {table.varied: value})
            if same and str(run.path) not in placed:
                shown = "unset" if value is None else _word(value)
                yield PaperRow(f"{table.varied}: {shown}", (), {table.varied: value}), [run]
    if table.others:
        for run in runs:
            if run.method != table.method and str(run.path) not in placed:
                yield PaperRow(run.name, (), {}, run.method), [run]


def _rows(
    title: str,
    table: PaperTable,
    placed: Sequence[tuple[PaperRow, list[ReportRun]]],
    measures: Sequence[Measure],
) -> Iterator[tuple[Cell, ...]]:
    for row, there in placed:
        given = (*row.published, *[None] * (len(table.columns) - len(row.published)))
        published = tuple(_cell(value) for value in given)
        if not there:
            yield title, row.label, *(None for _ in measures), *published
        for place, run in enumerate(there):
            label = row.label if len(there) == 1 else f"{row.label}: {run.name}"
            own = [measure.of(run) for measure in measures]
            yield title, label, *own, *(published if place == 0 else (None,) * len(published))


def _cell(value: Published) -> Cell:
    if isinstance(value, float):
        # As many decimals as the paper prints: one, but two for grades such as 1.68.
        return Number(value, 1 if round(value, 1) == value else 2)
    return value


def _lacking(table: PaperTable, filled: set[str]) -> str:
    """Which runs to make."""
    wanted = [row for row in table.own_rows if row.label not in filled and not row.method]
    commands = "; ".join(f"`{command(table.method, row.settings or {})}`" for row in wanted)
    return f"make runs on one benchmark with {commands}"
