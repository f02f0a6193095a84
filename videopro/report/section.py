"""A section of a report: what one name of `--tables` produces. Figures are functions, so that matplotlib is
only needed to draw them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from videopro.errors import RunError
from videopro.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from videopro.report.runs import ReportRun


class MissingRuns(RunError):
    """The given runs are not enough for a table; the message says which runs to add."""


@dataclass(frozen=True)
class FigureSpec:
    """A figure, drawn when it is written."""

    caption: str
    draw: Callable[[], Figure]


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
    """The runs that it is about, to say over how many videos; empty: all that were given."""
