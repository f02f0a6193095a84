"""Fill a paper's table from runs: the published values stay beside ours, marked as the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from videopro.report.papers.spec import AnyOf, Measure, Paper, PaperRow, PaperTable, published_cell
from videopro.report.runs import ReportRun, by_dataset, protocol_notes, question_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Table
from videopro.traces import NO_SUBTITLES

NOTE = (
    "Published: the paper's own numbers, of other models and, unless the benchmark's name says otherwise, "
    "other questions; nothing is compared with them. Accuracy with a 95 % interval clustered by video."
)

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class _FilledRow:
    """A row with the runs of ours that belong in it."""

    row: PaperRow
    runs: tuple[ReportRun, ...]
    is_of_method: bool = True
    """Whether the runs are of the table's own method."""


def build_table(table: PaperTable, runs: Sequence[ReportRun]) -> Section:
    """The table, with a block of rows for each dataset. Raises MissingRuns if no run of the method is given,
    or, for a table that compares several, no two on one dataset."""
    blocks: list[tuple[str, list[_FilledRow]]] = []
    filled: set[str] = set()
    most = 0
    for data, group in by_dataset(runs).items():
        placed = _fill(table, group)
        labels = {part.row.label for part in placed if part.is_of_method and part.runs}
        if labels:
            filled |= labels
            most = max(most, len(labels))
            blocks.append((data.title, placed))
    needed = 2 if table.is_comparison and len(table.own_rows) > 1 else 1
    if most < needed:
        # Of rows that are filled on different benchmarks, none can be compared: all are named.
        raise MissingRuns(f"{table.name}: {_lacking(table, filled if len(filled) < needed else set())}")
    included = [run for _, placed in blocks for part in placed for run in part.runs]
    measures = [measure for measure in table.measures if any(measure.of(run) is not None for run in included)]
    rows = [row for title, placed in blocks for row in _rows(title, table, placed, measures)]
    heads = (
        *(BENCHMARK, "system"),
        *(measure.head for measure in measures),
        *(f"{head}, published" for head in table.columns),
    )
    notes = [*table.notes, NOTE]
    if any(row.label not in filled for row in table.own_rows):
        notes.append(f"Rows without ours: {_lacking(table, filled)}.")
    return Section(
        table.name, table.title, table.source, (Table(table.title, heads, tuple(rows), tuple(notes)),),
        notes=(*protocol_notes(included), *question_notes(included)), runs=tuple(included),
    )  # fmt: skip


def own_runs(
    runs: Sequence[ReportRun], paper: Paper, changed: Mapping[str, Any] = NOTHING, free: Sequence[str] = ()
) -> list[ReportRun]:
    """The runs of the paper's method whose ablated settings are the paper's, except for `changed`; those in
    `free` may have any value."""
    required = {name: value for name, value in {**paper.ablated, **changed}.items() if name not in free}
    return [
        run
        for run in runs
        if run.method == paper.method
        and all(_fits(setting(run, name, paper.ablated.get(name)), value) for name, value in required.items())
    ]


def setting(run: ReportRun, name: str, default: Any = None) -> Any:
    """A setting of the run's method; `default` where an older version had no such setting. Subtitles that
    were asked for, but that no question had, are "none"; transcripts count as listed ones."""
    if name == "subtitles":
        answered = [trace for trace in run.traces if trace.error is None]
        if answered and all(NO_SUBTITLES in trace.notes for trace in answered):
            return "none"
        recorded = run.identity["method"]
        if recorded.get(name) == "none" and recorded.get("speech", "none") != "none":
            return "listed"
    return run.identity["method"].get(name, default)


def command(method: str, changed: Mapping[str, Any]) -> str:
    """The command that makes a run. A setting that is unset is left out."""
    values = {name: _first_value(value) for name, value in changed.items()}
    options = " ".join(f"{name}={_word(value)}" for name, value in values.items() if value is not None)
    return f"videopro infer --method {method}{f' --options {options}' if options else ''} ..."


def _fits(value: Any, required: Any) -> bool:
    values = required.values if isinstance(required, AnyOf) else (required,)
    return any(_plain(value) == _plain(each) for each in values)


def _plain(value: Any) -> Any:
    """Lists in any order are the same set of tools or agents."""
    # As text: values of different types have no order.
    return sorted(map(str, value)) if isinstance(value, list | tuple) else value


def _first_value(value: Any) -> Any:
    return value.values[0] if isinstance(value, AnyOf) else value


def _word(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    # Without spaces, at which a shell would divide it.
    return f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def _fill(table: PaperTable, runs: Sequence[ReportRun]) -> list[_FilledRow]:
    """The paper's rows with our runs; then rows for other values of what is varied, and for other methods."""
    filled = []
    for row in table.rows:
        there = () if row.settings is None else own_runs(runs, table.paper, row.settings)
        filled.append(_FilledRow(row, tuple(there)))
    placed = {run.path for part in filled for run in part.runs}
    if table.varied:
        for run in own_runs(runs, table.paper, {}, free=table.varied):
            if run.path not in placed:
                filled.append(_FilledRow(PaperRow(_varied(table, run)), (run,)))
    if table.others:
        filled += [
            _FilledRow(PaperRow(run.name), (run,), is_of_method=False)
            for run in runs
            if run.method != table.paper.method
        ]
    return filled


def _varied(table: PaperTable, run: ReportRun) -> str:
    """The label of a run with other values than the paper's."""
    values = []
    for name in table.varied:
        value = setting(run, name, table.paper.ablated.get(name))
        values.append(f"{name} {run.model if value == 'self' else _word(value)}")
    return ", ".join(values)


def _rows(
    title: str, table: PaperTable, placed: Sequence[_FilledRow], measures: Sequence[Measure]
) -> Iterator[tuple[Cell, ...]]:
    for part in placed:
        values = (*part.row.published, *[None] * (len(table.columns) - len(part.row.published)))
        published = tuple(published_cell(value) for value in values)
        if not part.runs:
            yield title, part.row.label, *(None for _ in measures), *published
        for index, run in enumerate(part.runs):
            label = part.row.label if len(part.runs) == 1 else f"{part.row.label}: {run.name}"
            cells = [measure.of(run) for measure in measures]
            yield title, label, *cells, *(published if index == 0 else (None,) * len(published))


def _lacking(table: PaperTable, filled: set[str]) -> str:
    """Which runs to make."""
    missing = [row.settings or {} for row in table.own_rows if row.label not in filled]
    if not table.own_rows:
        missing = [{name: name.upper() for name in table.varied}]
    return "make runs on one benchmark with " + "; ".join(
        f"`{command(table.paper.method, changed)}`" for changed in missing
    )
