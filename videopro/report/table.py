"""The sections of a report and their tables as data. `page.html.j2` renders HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from videopro.cli import TextTable
from videopro.errors import RunError
from videopro.report.runs import ReportRun
from videopro.traces.scoring import Accuracy, Difference


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, in percent or percentage points; without an interval for too few
    videos."""

    value: float
    low: float | None
    high: float | None
    signed: bool = False
    """Whether it is a difference, shown with its sign."""

    @property
    def text(self) -> str:
        """The value without its interval."""
        return f"{self.value:+.1f}" if self.signed else f"{self.value:.1f}"

    @property
    def between(self) -> str:
        """The interval; "-" if there is none."""
        return "-" if self.low is None else f"{self.low:.1f} to {self.high:.1f}"

    def __str__(self) -> str:
        return f"{self.text} ({self.between})"


@dataclass(frozen=True)
class Number:
    """A number without an interval, and the number of decimals to show."""

    value: float
    decimals: int = 1

    def __str__(self) -> str:
        return f"{self.value:,.{self.decimals}f}"


BENCHMARK = "benchmark"
"""Heading of a first column that names the benchmark."""

AS_PUBLISHED = "published"
"""Suffix of a table of published numbers."""

Cell: TypeAlias = Estimate | Number | int | str | None


@dataclass(frozen=True)
class Table:
    """A table: headings and rows; the first column is text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    suffix: str = ""
    """Distinguishes the tables of one section in file names."""
    folded: bool = False
    """A long reference table: collapsed on the page, and CSV only elsewhere."""

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, Cell]], *notes: str, **form: Any) -> Self:
        """A table of at least one row; all rows have the same keys, which are the headings."""
        # A cell stored with its heading cannot slip into another column.
        return cls(title, tuple(rows[0]), tuple(tuple(row.values()) for row in rows), notes, **form)


def share(value: float | None, decimals: int = 1) -> Number | None:
    """A share in 0..1 as a percentage."""
    return None if value is None else Number(100 * value, decimals)


def accuracy_cell(result: Accuracy) -> Estimate | None:
    """An accuracy in percent."""
    return None if result.accuracy is None else estimate(result.accuracy, result.shown_ci95)


def difference_cell(result: Difference) -> Estimate | None:
    """A difference in percentage points."""
    return None if result.difference is None else estimate(result.difference, result.shown_ci95, signed=True)


def estimate(share: float, interval: Sequence[float] | None, *, signed: bool = False) -> Estimate:
    """A share, or a difference of shares if `signed`, in percent with its interval."""
    low, high = (None, None) if interval is None else (100 * interval[0], 100 * interval[1])
    return Estimate(100 * share, low, high, signed)


def cell_text(cell: Cell) -> str:
    """The text of a cell; "" for None."""
    return "" if cell is None else str(cell)


def compact(table: Table) -> Table:
    """The table with its first column moved to the title, if that column names one benchmark in all rows."""
    if not table.rows or table.heads[0] != BENCHMARK or len({row[0] for row in table.rows}) > 1:
        return table
    rows = tuple(row[1:] for row in table.rows)
    return replace(table, title=f"{table.title}, {table.rows[0][0]}", heads=table.heads[1:], rows=rows)


def sides(table: Table) -> list[str]:
    """The alignment of each column: numbers right, text left."""
    return [
        "left" if any(isinstance(cell, str) for cell in column) else "right" for column in _columns(table)
    ]


def as_text(table: Table, dash: str = " to ") -> TextTable:
    """The table for rendering; `dash`: between the ends of an interval."""
    table = compact(table)

    def text(cell: Cell) -> str:
        return str(cell).replace(" to ", dash) if isinstance(cell, Estimate) else cell_text(cell)

    rows = tuple(tuple(map(text, row)) for row in table.rows)
    lefts = frozenset(head for head, side in zip(table.heads, sides(table), strict=True) if side == "left")
    return TextTable(table.title, table.heads, rows, table.notes, lefts)


def comma_separated(table: Table) -> str:
    """CSV with unrounded numbers; an estimate takes three columns."""
    columns: list[list[str | int | float | None]] = []
    for head, cells in zip(table.heads, _columns(table), strict=True):
        columns.append([head, *map(_plain, cells)])
        if any(isinstance(cell, Estimate) for cell in cells):
            for end in ("low", "high"):
                # Rounded for equal files on every machine; a cell that is no estimate has neither end.
                ends = (getattr(cell, end, None) for cell in cells)
                columns.append([f"{head}, {end}", *(each and round(each, 4) for each in ends)])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(zip(*columns, strict=True))
    return text.getvalue()


def _columns(table: Table) -> list[tuple[Cell, ...]]:
    # A table without rows has columns nevertheless.
    return list(zip(*table.rows, strict=True)) if table.rows else [() for _ in table.heads]


def _plain(cell: Cell) -> str | int | float | None:
    if isinstance(cell, Estimate):
        return round(cell.value, 4)
    return round(cell.value, 6) if isinstance(cell, Number) else cell


class MissingRuns(RunError):
    """The runs do not allow a table; the message says which runs to add."""


@dataclass(frozen=True)
class FigureSpec:
    """A figure, drawn when it is written."""

    caption: str
    draw: Callable[[], Any]
    """Returns matplotlib's Figure."""


@dataclass(frozen=True)
class Section:
    """One part of a report."""

    name: str
    title: str
    source: str
    """Its table or figure in the paper; "" if the paper has none."""
    tables: tuple[Table, ...] = ()
    figure: FigureSpec | None = None
    notes: tuple[str, ...] = ()
    runs: tuple[ReportRun, ...] = ()
    """The runs in it, to count their videos; empty: all given runs."""
