"""The sections of a report by name, and building the sections that the given runs allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from videopro.cli import did_you_mean
from videopro.errors import ConfigError
from videopro.report import papers
from videopro.report.citations import cited
from videopro.report.comparisons import efficiency, modes, modules, pairs, training
from videopro.report.confidence import TAUS, confidence, thresholds
from videopro.report.costs import costs
from videopro.report.main_results import about_runs, durations, main_results, open_answers, own_metrics
from videopro.report.papers.tables import read_published
from videopro.report.runs import (
    ReportRun,
    counts_note,
    exclusions_note,
    protocol_notes,
    question_notes,
    stand_ins_note,
    with_lengths,
)
from videopro.report.table import AS_PUBLISHED, Estimate, MissingRuns, Section, Table
from videopro.traces.scoring import FEW_VIDEOS_NOTE

PUBLISHED = read_published("videopro")
"""The paper's table for each section that has one."""


def with_published(section: Section) -> Section:
    """The section with the paper's table after its own tables, if the paper has one."""
    if section.name not in PUBLISHED:
        return section
    paper_table = PUBLISHED[section.name]
    table = replace(paper_table, title=f"{paper_table.title}: {section.source} of the paper")
    return replace(section, tables=(*section.tables, table))


Builder = Callable[[Sequence[ReportRun]], Section]

BUILDERS: Mapping[str, Builder] = {
    "main": main_results,
    "efficiency": efficiency,
    "costs": costs,
    "modules": modules,
    "training": training,
    "modes": modes,
    "confidence": confidence,
    "tau": thresholds,
    "citations": cited,
    "durations": durations,
    "metrics": own_metrics,
    "open": open_answers,
    "pairs": pairs,
    "runs": about_runs,
}

_NAMING_LACKS = frozenset(("costs", "runs", *papers.BUILDERS))
"""Tables with a row for a run without an accuracy, which gives the reason; other tables leave it out."""


def build(
    runs: Sequence[ReportRun], names: Sequence[str] = (), taus: Sequence[float] = TAUS
) -> tuple[list[Section], list[str]]:
    """The sections in `names`, or, if it is empty, all that the runs allow, with the reasons why others are
    missing. The name of a paper's method selects all its tables that the runs allow; without names, they are
    made for the methods of the runs.

    Raises ConfigError for an unknown name, and MissingRuns if a section in `names` cannot be built.
    """
    available = [*BUILDERS, *papers.FAMILIES, *papers.BUILDERS]
    for name in names:
        if name not in available:
            raise ConfigError(f"tables: unknown table {name!r}; {did_you_mean(name, available)}")
    builders: dict[str, Builder] = {**BUILDERS, **papers.BUILDERS, "tau": partial(thresholds, taus=taus)}
    whole, runs = with_lengths(runs), [run for run in runs if not run.is_length]
    methods = {run.method for run in runs}
    selected = names or [*BUILDERS, *(method for method in papers.FAMILIES if method in methods)]
    sections, lacking = [], []
    for entry in selected:
        for name in papers.FAMILIES.get(entry, (entry,)):
            try:
                of = whole if name == "durations" else runs
                section = builders[name](of) if name in _NAMING_LACKS else _of_able(builders[name], of)
                sections.append(_with_counts(section, of))
            except MissingRuns as error:
                # A table that was asked for by its own name must not be missing; one of a paper's may.
                if name in names:
                    raise
                lacking.append(str(error))
    return sections, lacking


def _with_counts(section: Section, runs: Sequence[ReportRun]) -> Section:
    """The section with captions that add the number of questions and videos, what the accuracies leave out,
    why intervals are missing, and why runs are not compared."""
    about = section.runs or runs
    notes = (*protocol_notes(about), *question_notes(about), *section.notes)
    counts = [counts_note(about), *filter(None, [exclusions_note(about), stand_ins_note(about)])]
    tables = tuple(
        table
        if table.suffix == AS_PUBLISHED
        else replace(
            table, notes=(*table.notes, *counts, *([FEW_VIDEOS_NOTE] if _lacks_interval(table) else []))
        )
        for table in section.tables
    )
    figure = section.figure and replace(section.figure, caption=" ".join((section.figure.caption, *counts)))
    return replace(section, tables=tables, figure=figure, notes=notes)


def _lacks_interval(table: Table) -> bool:
    return any(isinstance(cell, Estimate) and cell.low is None for row in table.rows for cell in row)


def _of_able(builder: Builder, runs: Sequence[ReportRun]) -> Section:
    """The section of the runs that have what it needs; its notes name the others."""
    section = builder([run for run in runs if not run.lacks])
    left_out = tuple(f"Left out: {run.name}, which {run.lacks}." for run in runs if run.lacks)
    return replace(section, notes=(*section.notes, *left_out))
