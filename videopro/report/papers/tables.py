"""Fills a paper's table from runs: the published values are shown next to ours, marked as published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import ConfigDict, TypeAdapter, with_config

from videopro.cli import read_yaml
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.table import (
    AS_PUBLISHED,
    BENCHMARK,
    Cell,
    MissingRuns,
    Number,
    Section,
    Table,
    accuracy_cell,
    share,
)
from videopro.traces import NO_SUBTITLES
from videopro.traces.scoring import accuracy, grouped, is_answerable, mean_frames_seen

Published: TypeAlias = float | int | str | None
"""With as many decimals as printed in the paper; a number without decimals is an int."""


@dataclass(frozen=True)
class AnyOf:
    """Equivalent values of a setting in a row's runs. The first is the one to recommend."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class PaperRow:
    """A row: its label, the published values, and our matching runs."""

    label: str
    published: tuple[Published, ...] = ()
    """One value per published column; missing values at the end are empty."""
    settings: Mapping[str, Any] | None = None
    """The settings in which our runs differ from the paper's system, each a value or AnyOf several; empty:
    the paper's system. None: a system that is not a method here."""


FilledRow: TypeAlias = tuple[PaperRow, Sequence[ReportRun]]
"""A row with our runs for it."""

Measure: TypeAlias = tuple[str, Callable[[ReportRun], Cell]]
"""A column of our values: its heading, and its cell for a run."""


@dataclass(frozen=True)
class Paper:
    """A paper, and the method that implements its system."""

    method: str
    title: str
    ablated: Mapping[str, Any]
    """Every setting that an ablation of the paper changes, with its default value. Runs that differ in one of
    them are not the paper's system."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class PaperTable:
    """One table of a paper."""

    paper: Paper
    number: int | str
    """The table's number, or "fig3"."""
    title: str
    columns: tuple[str, ...]
    """The published columns."""
    rows: tuple[PaperRow, ...]
    measures: tuple[Measure, ...]
    varied: tuple[str, ...] = ()
    """Settings for which every value gets a row, because the paper compares their values."""
    others: bool = False
    """Whether runs of other methods on the same questions are rows too."""
    is_comparison: bool = True
    """Whether the table needs at least two of our rows to be useful."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For `--tables`."""
        return f"{self.paper.method}-{self.number}"

    @property
    def source(self) -> str:
        """Where it is in the paper."""
        kind = f"Table {self.number}" if isinstance(self.number, int) else f"Figure {self.number[3:]}"
        return f"{kind} of {self.paper.title}"

    @property
    def own_rows(self) -> tuple[PaperRow, ...]:
        """The rows that our runs can fill."""
        return tuple(row for row in self.rows if row.settings is not None)


_PAPER_TABLE = TypeAdapter(PaperTable)


# ---- measures --------------------------------------------------------------------------------------------


def right(run: ReportRun) -> Cell:
    """Accuracy with its interval, or why there is none."""
    return run.lacks or accuracy_cell(accuracy(run.records))


def frames_seen(run: ReportRun) -> Cell:
    """Mean number of frames seen per question."""
    seen = mean_frames_seen([trace for trace in run.own_traces if is_answerable(trace)])
    return None if seen is None else Number(seen, 1)


def metric(name: str) -> Callable[[ReportRun], Cell]:
    """A benchmark's own metric; empty on other benchmarks."""

    def of(run: ReportRun) -> Cell:
        value = run.summary["metrics"].get(name)
        if value is None or value["robust"] is None:
            return None
        robust = value["robust"]
        return run.lacks or (share(robust) if value["valid"] is None else Number(robust, 2))

    return of


def in_group(kind: str, *names: str) -> Callable[[ReportRun], Cell]:
    """Accuracy in a benchmark's group, or in several groups with different questions; empty without such a
    group."""

    def of(run: ReportRun) -> Cell:
        groups = grouped(run.records).get(kind, {})
        records = [record for name in names for record in groups.get(name, ())]
        return None if not records else run.lacks or accuracy_cell(accuracy(records))

    return of


def published_cell(value: Published) -> Cell:
    """A published value with the paper's decimals: one, but two for grades such as 1.68."""
    if isinstance(value, float):
        return Number(value, 1 if round(value, 1) == value else 2)
    return value


MEASURES: Mapping[str, Measure] = {
    "frames": ("frames seen", frames_seen),
    "questions": ("questions", lambda run: len(run.records)),
    # Open questions too, which have no right or wrong answer and so no record.
    "asked": ("questions", lambda run: len(run.traces)),
    "accuracy": ("accuracy, %", right),
}


NOTE = (
    "Published: the paper's numbers, from other models and, unless the benchmark's name says "
    "otherwise, other questions; they are not compared with ours. Accuracy with a 95 % interval by video."
)

NOTHING: Mapping[str, Any] = MappingProxyType({})


def build_table(table: PaperTable, runs: Sequence[ReportRun]) -> Section:
    """The table, with a block of rows for each dataset. Raises MissingRuns if no run of the method is given,
    or, for a table that compares several, no two runs on one dataset."""
    blocks: list[tuple[str, list[FilledRow]]] = []
    filled: set[str] = set()
    most = 0
    for data, group in by_dataset(runs).items():
        placed = _fill(table, group)
        method = table.paper.method
        labels = {row.label for row, there in placed if any(run.method == method for run in there)}
        if labels:
            filled |= labels
            most = max(most, len(labels))
            blocks.append((data.title, placed))
    needed = 2 if table.is_comparison and len(table.own_rows) > 1 else 1
    if most < needed:
        # Of rows that are filled on different benchmarks, none can be compared: all are named.
        raise MissingRuns(f"{table.name}: {_lacking(table, filled if len(filled) < needed else set())}")
    included = [run for _, placed in blocks for _, there in placed for run in there]
    measures = [(head, of) for head, of in table.measures if any(of(run) is not None for run in included)]
    rows = [row for title, placed in blocks for row in _rows(title, table, placed, measures)]
    heads = (
        *(BENCHMARK, "system"),
        *(head for head, _ in measures),
        *(f"{head}, published" for head in table.columns),
    )
    notes = [*table.notes, NOTE]
    if any(row.label not in filled for row in table.own_rows):
        notes.append(f"Rows without our runs: {_lacking(table, filled)}.")
    return Section(
        table.name, table.title, table.source, (Table(table.title, heads, tuple(rows), tuple(notes)),),
        runs=tuple(included),
    )  # fmt: skip


def own_runs(
    runs: Sequence[ReportRun], paper: Paper, changed: Mapping[str, Any] = NOTHING, free: Sequence[str] = ()
) -> list[ReportRun]:
    """The runs of the paper's method whose ablated settings have the paper's values, except for `changed`;
    settings in `free` can have any value."""
    required = {name: value for name, value in {**paper.ablated, **changed}.items() if name not in free}
    return [
        run
        for run in runs
        if run.method == paper.method
        and all(_fits(setting(run, name, paper.ablated.get(name)), value) for name, value in required.items())
    ]


def setting(run: ReportRun, name: str, default: Any = None) -> Any:
    """A setting of the run's method; `default` if an older version had no such setting. Requested subtitles
    that no question had are "none"; transcripts count as listed subtitles."""
    if name == "subtitles":
        answered = [trace for trace in run.traces if trace.error is None]
        if answered and all(NO_SUBTITLES in trace.notes for trace in answered):
            return "none"
        recorded = run.identity["method"]
        if recorded.get(name) == "none" and recorded.get("speech", "none") != "none":
            return "listed"
    return run.identity["method"].get(name, default)


def command(method: str, changed: Mapping[str, Any]) -> str:
    """The command that makes a run. Unset settings are left out."""
    values = {name: _values(value)[0] for name, value in changed.items()}
    options = " ".join(f"{name}={_word(value)}" for name, value in values.items() if value is not None)
    return f"videopro infer --method {method}{f' --options {options}' if options else ''} ..."


def _values(required: Any) -> tuple[Any, ...]:
    return required.values if isinstance(required, AnyOf) else (required,)


def _fits(value: Any, required: Any) -> bool:
    return any(_plain(value) == _plain(each) for each in _values(required))


def _plain(value: Any) -> Any:
    """Lists as sets, because the order of tools or agents does not matter."""
    # As text: values of different types have no order.
    return sorted(map(str, value)) if isinstance(value, list | tuple) else value


def _word(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    # Without spaces, at which a shell would divide it.
    return f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def _fill(table: PaperTable, runs: Sequence[ReportRun]) -> list[FilledRow]:
    """The paper's rows with our runs, then rows for other values of varied settings, and for other
    methods."""
    filled: list[FilledRow] = [
        (row, [] if row.settings is None else own_runs(runs, table.paper, row.settings)) for row in table.rows
    ]
    placed = {run.path for _, there in filled for run in there}
    if table.varied:
        varied = own_runs(runs, table.paper, {}, free=table.varied)
        filled += [(PaperRow(_varied(table, run)), [run]) for run in varied if run.path not in placed]
    if table.others:
        filled += [(PaperRow(run.name), [run]) for run in runs if run.method != table.paper.method]
    return filled


def _varied(table: PaperTable, run: ReportRun) -> str:
    """The label of a run with other values than the paper's."""
    values = []
    for name in table.varied:
        value = setting(run, name, table.paper.ablated.get(name))
        values.append(f"{name} {run.model if value == 'self' else _word(value)}")
    return ", ".join(values)


def _rows(
    title: str, table: PaperTable, placed: Sequence[FilledRow], measures: Sequence[Measure]
) -> Iterator[tuple[Cell, ...]]:
    for row, runs in placed:
        nothing = (None,) * len(table.columns)
        published = (*map(published_cell, row.published), *nothing)[: len(nothing)]
        if not runs:
            yield title, row.label, *(None for _ in measures), *published
        for index, run in enumerate(runs):
            label = row.label if len(runs) == 1 else f"{row.label}: {run.name}"
            yield title, label, *(of(run) for _, of in measures), *(nothing if index else published)


def _lacking(table: PaperTable, filled: set[str]) -> str:
    """Which runs to make."""
    missing = [row.settings or {} for row in table.own_rows if row.label not in filled]
    if not table.own_rows:
        missing = [{name: name.upper() for name in table.varied}]
    return "make runs on one benchmark with " + "; ".join(
        f"`{command(table.paper.method, changed)}`" for changed in missing
    )


def read_paper(name: str) -> tuple[Paper, tuple[PaperTable, ...]]:
    """A paper and its tables that our runs can fill."""
    content = _read(name)
    paper = Paper(content["method"], content["title"], _settings(content["ablated"]))
    return paper, tuple(_table(paper, table) for table in content["tables"])


def read_published(name: str) -> dict[str, Table]:
    """A paper's tables as published, by our name for each."""
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


def _table(paper: Paper, table: Mapping[str, Any]) -> PaperTable:
    rows = [_row(**row) if isinstance(row, dict) else _row(row) for row in table["rows"]]
    measures = list(_measures(table["measures"]))
    # Pydantic, so that an unknown or missing key of the file is an error, and lists become tuples.
    read: PaperTable = _PAPER_TABLE.validate_python(
        {**table, "paper": paper, "rows": rows, "measures": measures}
    )
    return read


def _row(row: Sequence[Any], settings: Mapping[str, Any] | None = None) -> PaperRow:
    label, *published = row
    return PaperRow(label, tuple(published), None if settings is None else _settings(settings))


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the types that methods use: tuples for lists."""

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
            yield head, metric(of) if kind == "metric" else in_group(kind, *groups)
