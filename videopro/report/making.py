"""A report: sections of runs, optionally with the paper's tables, written as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from videopro.cli import needs_extra
from videopro.report.runs import ReportRun

if TYPE_CHECKING:
    from videopro.report.table import Section


@dataclass(frozen=True)
class Report:
    """A written report."""

    page: Path
    """Its report.html."""
    sections: Sequence[Section]
    lacking: Sequence[str]
    """Why some sections are missing."""


def make_report(
    runs: Sequence[ReportRun],
    folder: Path,
    *,
    title: str,
    tables: Sequence[str] = (),
    taus: Sequence[float] = (),
    published: bool = False,
) -> Report:
    """Write the tables and figures that the runs allow into a folder.

    `tables`: the names of the tables to make; empty: all. `taus`: the thresholds of the table "tau"; empty:
    the paper's. `published`: whether the paper's numbers follow each of its tables. Raises MissingExtra
    without the extra "report", ConfigError for an unknown name, MissingRuns for a table that these runs do
    not allow, and RunError if the folder cannot be written.
    """
    # Imported here: exporting a run needs none of these packages.
    with needs_extra("report", "a report"):
        from videopro.report.confidence import TAUS
        from videopro.report.sections import build, with_published
        from videopro.report.writing import write_report
    sections, lacking = build(runs, tables, taus or TAUS)
    if published:
        sections = [with_published(section) for section in sections]
    return Report(write_report(folder, title, sections, lacking), sections, lacking)
