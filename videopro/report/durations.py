"""Accuracy by video duration (Figure 5), in the paper's bins: below 2, 2 to 15, above 15 minutes.

Durations are those of the files, so that benchmarks compare whatever their own groups are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from videopro.report.rules import OWN_RULE
from videopro.report.runs import ReportRun, by_dataset, protocol_notes, question_notes
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Table, accuracy_cell
from videopro.traces.scoring import Accuracy, QuestionScore, accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = ("< 2 min", "2-15 min", "> 15 min")


def bin_of(seconds: float) -> str:
    """The paper's bin of a duration; 2 and 15 minutes are in the middle bin."""
    return BINS[0] if seconds < 120 else BINS[1] if seconds <= 900 else BINS[2]


def binned(run: ReportRun) -> dict[str, list[QuestionScore]]:
    """The scores by bin. Questions about videos of unknown duration are left out."""
    length = {trace.question_id: trace.video.duration for trace in run.traces}
    scores: dict[str, list[QuestionScore]] = {name: [] for name in BINS}
    for record in run.records:
        if length[record.question_id] > 0:
            scores[bin_of(length[record.question_id])].append(record)
    return scores


def durations(runs: Sequence[ReportRun]) -> Section:
    """Accuracy in each bin for each run with all modules; one panel per benchmark."""
    chosen = [run for run in runs if not run.without and run.records]
    rows: list[tuple[Cell, ...]] = []
    panels: list[tuple[str, list[tuple[str, str, list[Accuracy]]]]] = []
    left_out = 0
    for data, group in by_dataset(chosen).items():
        bars = []
        for run in group:
            parts = [accuracy(records) for records in binned(run).values()]
            if not any(part.n for part in parts):
                continue
            # Questions about videos of unknown length are in no bin.
            left_out += len(run.records) - sum(part.n for part in parts)
            rows.append(
                (data.title, run.name, *(cell for part in parts for cell in (part.n, accuracy_cell(part))))
            )
            bars.append((run.name, run.method, parts))
        if bars:
            panels.append((data.title, bars))
    if not rows:
        raise MissingRuns(
            "durations: no run has a scored question about a video of known length; finish one first"
        )
    heads = (BENCHMARK, "run", *(head for name in BINS for head in (f"n, {name}", f"{name}, %")))
    notes = [
        "Lengths of the files; a video of just 2 or 15 minutes is in the middle bin.",
        OWN_RULE,
    ]
    if left_out:
        notes.append(f"{left_out} answers to questions about videos of unknown length are left out.")

    def draw() -> Figure:
        from videopro.report.figures import draw_durations

        return draw_durations(panels, BINS)

    return Section(
        "durations", "Accuracy by video duration", "Figure 5",
        (Table("Accuracy across video durations", heads, tuple(rows), tuple(notes)),),
        FigureSpec("Accuracy by the length of the video with 95 % intervals.", draw),
        notes=(*protocol_notes(chosen), *question_notes(chosen)), runs=tuple(chosen),
    )  # fmt: skip
