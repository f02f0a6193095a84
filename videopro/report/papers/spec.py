"""A table of a paper as data: its rows, the published values, and which of our runs belong in each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from videopro.report.runs import ReportRun
from videopro.report.table import Cell, Number, accuracy_cell
from videopro.traces.scoring import accuracy, grouped, is_answerable, mean_frames_seen

Published: TypeAlias = float | int | str | None
"""With as many decimals as the paper prints; a number without any is an int."""


@dataclass(frozen=True)
class AnyOf:
    """Values of a setting that come to the same in a row's runs. The first is the one to ask for."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class PaperRow:
    """A row: its label, what the paper says, and the runs of ours that are the same."""

    label: str
    published: tuple[Published, ...] = ()
    """One value per published column; shorter rows are filled with nothing."""
    settings: Mapping[str, Any] | None = None
    """The settings in which our runs differ from the paper's own, each a value or AnyOf several; empty: the
    paper's system as it is. None: a system that is no method here."""


@dataclass(frozen=True)
class Measure:
    """A column of ours."""

    head: str
    of: Callable[[ReportRun], Cell]


@dataclass(frozen=True)
class Paper:
    """A paper, and the method of ours that is its system."""

    method: str
    title: str
    ablated: Mapping[str, Any]
    """Every setting that an ablation of the paper changes, with the paper's own value. Runs that differ in
    one of them are not the paper's own system."""


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper."""

    paper: Paper
    number: int | str
    """Of the table, or "fig3"."""
    title: str
    columns: tuple[str, ...]
    """The published columns."""
    rows: tuple[PaperRow, ...]
    measures: tuple[Measure, ...]
    varied: tuple[str, ...] = ()
    """Settings of which any value gets a row, as the paper compares values of them."""
    others: bool = False
    """Whether runs of other methods on the same questions are rows too."""
    is_comparison: bool = True
    """Whether a table with several rows of ours needs two of them to say something."""
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
        """The rows that runs of ours can fill."""
        return tuple(row for row in self.rows if row.settings is not None)


# ---- measures --------------------------------------------------------------------------------------------


def right(run: ReportRun) -> Cell:
    """Accuracy with its interval, or why there is none."""
    return run.lacks or accuracy_cell(accuracy(run.records))


def frames_seen(run: ReportRun) -> Cell:
    """Mean frames that a question looked at."""
    seen = mean_frames_seen([trace for trace in run.own_traces if is_answerable(trace)])
    return None if seen is None else Number(seen, 1)


def metric(name: str) -> Callable[[ReportRun], Cell]:
    """A metric of the benchmark's own; nothing on other benchmarks."""

    def of(run: ReportRun) -> Cell:
        value = run.summary["metrics"].get(name)
        if value is None or value["robust"] is None:
            return None
        if value["valid"] is not None:
            return run.lacks or Number(value["robust"], 2)
        return run.lacks or Number(100 * value["robust"], 1)

    return of


def in_group(kind: str, *names: str) -> Callable[[ReportRun], Cell]:
    """Accuracy in a group of the benchmark's, or in several with different questions; nothing where there is
    no such group."""

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


MEASURES = {
    "frames": Measure("frames seen", frames_seen),
    "questions": Measure("questions", lambda run: len(run.records)),
    # Open questions too, which have no right or wrong answer and so no record.
    "asked": Measure("questions", lambda run: len(run.traces)),
    "accuracy": Measure("accuracy, %", right),
}
