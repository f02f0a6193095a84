"""Every pair of runs on a dataset, question by question: the difference, and the questions that changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from videopro.report.rules import OWN_RULE
from videopro.report.runs import ReportRun, baseline, by_dataset, protocol_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Table, difference_cell
from videopro.traces.scoring import paired_difference


def changed_sides(first: ReportRun, second: ReportRun) -> tuple[list[str], list[str]]:
    """Ids of the questions that only the second run answered correctly, and of those that only the first
    did."""
    before = {record.question_id: record.correct for record in first.records}
    gained: list[str] = []
    lost: list[str] = []
    for record in second.records:
        if record.question_id in before and record.correct != before[record.question_id]:
            (gained if record.correct else lost).append(record.question_id)
    return gained, lost


def pairs(runs: Sequence[ReportRun]) -> Section:
    """The difference of every pair, starting with the baseline, and the questions behind it."""
    rows: list[tuple[Cell, ...]] = []
    changed: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        scored = [run for run in group if run.records]
        if not scored:
            continue
        start = baseline(scored)
        ordered = [start, *(run for run in scored if run is not start)]
        for first, second in combinations(ordered, 2):
            gap = paired_difference(second.records, first.records)
            gained, lost = changed_sides(first, second)
            rows.append(
                (data.title, second.name, first.name, gap.n, difference_cell(gap), len(gained), len(lost))
            )
            changed += [
                (data.title, second.name, first.name, change, *_question(first, second, question_id))
                for change, ids in (("gained", gained), ("lost", lost))
                for question_id in ids
            ]
    if not rows:
        raise MissingRuns("pairs: no two runs share benchmark, split and protocol; give two that do")
    heads = (BENCHMARK, "run", "compared with", "questions of both", "difference", "gained", "lost")
    notes = (
        "Difference in percentage points, paired by question, with a 95 % interval clustered by video. "
        "Gained: questions that only the first run got right; lost: only the other.",
        OWN_RULE,
    )
    looked_up = (
        *(BENCHMARK, "run", "compared with", "change", "question id", "question", "right", "its answer"),
        "the other's answer",
    )
    return Section(
        "pairs", "Pairs of runs", "",
        (
            Table("Pairs of runs", heads, tuple(rows), notes),
            Table("Questions that changed sides", looked_up, tuple(changed), suffix="changed", folded=True),
        ),
        notes=tuple(protocol_notes(runs)),
    )  # fmt: skip


def _question(first: ReportRun, second: ReportRun, question_id: str) -> tuple[Cell, ...]:
    second_trace = next(trace for trace in second.traces if trace.question_id == question_id)
    first_trace = next(trace for trace in first.traces if trace.question_id == question_id)
    answers = [
        trace.final.letter if trace.final is not None else None for trace in (second_trace, first_trace)
    ]
    return (question_id, second_trace.question, second_trace.gold, *(letter or "none" for letter in answers))
