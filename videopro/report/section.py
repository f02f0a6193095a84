"""What one name of `--tables` makes: tables, figures and words about them.

Knows tables; nothing of runs. Figures come as functions, so that matplotlib is needed only where they are
drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from videopro.errors import RunError
from videopro.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MissingRuns(RunError):
    """The runs that were given do not hold what a table needs; the message says what would."""


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
    """What of the paper it is; "" where the paper has no such table."""
    tables: tuple[Table, ...] = ()
    figure: FigureSpec | None = None
    notes: tuple[str, ...] = ()
