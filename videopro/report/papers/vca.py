"""VCA: its Tables 1 to 6 and 9 to 11, and Fig. 5 (CVPR 2025 version with its supplement)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from videopro.report.papers.building import own_runs
from videopro.report.papers.files import read_paper
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, share
from videopro.traces.scoring import segment_choices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER, TABLES = read_paper("vca")


def segment_distances(runs: Sequence[ReportRun]) -> Section:
    """How far the chosen segment is from the annotated evidence: the agent's choice, and the greedy one."""
    rows: list[tuple[Cell, ...]] = []
    drawn: list[tuple[str, list[int], list[int]]] = []
    for data, group in by_dataset(runs).items():
        for run in own_runs(group, PAPER):
            choices = [choice for trace in run.traces for choice in segment_choices(trace)]
            scored = [choice for choice in choices if choice.greedy_distance is not None]
            if not scored:
                continue
            questions = sum(bool(segment_choices(trace)) for trace in run.traces)
            mine = [choice.distance for choice in scored]
            greedy = [choice.greedy_distance for choice in scored if choice.greedy_distance is not None]
            drawn.append((f"{run.name}\n{data.title}", mine, greedy))
            for label, distances in (("the agent's choice", mine), ("the highest score", greedy)):
                rows.append(
                    (data.title, run.name, label, questions, len(distances),
                     Number(sum(map(abs, distances)) / len(distances), 2),
                     Number(sum(distances) / len(distances), 2),
                     share(sum(gap == 0 for gap in distances) / len(distances)))
                )  # fmt: skip
    if not rows:
        raise MissingRuns(
            "vca-fig5: no run of method vca chose a segment in a question with annotated evidence; make one "
            "on a benchmark that has it (such as lvbench)"
        )
    heads = (
        *(BENCHMARK, "run", "segment", "questions", "choices", "mean distance", "mean signed distance"),
        "in the evidence, %",
    )
    notes = (
        "Distance in segments, among those open at that moment, to the nearest that overlaps the annotated "
        "evidence; the figure does not say at which choices it measures: these are all.",
        "Published (GPT-4o on LVBench): distances with a mean of 1.28 for the highest score; for the agent's "
        "choices a sharper distribution, with an average distance gap of -0.60.",
    )

    def draw() -> Figure:
        from videopro.report.papers.figures import draw_distances

        return draw_distances(drawn)

    return Section(
        "vca-fig5", "Distance of the chosen segment from the evidence", "Figure 5 of VCA",
        (Table("Distance of the chosen segment from the evidence", heads, tuple(rows), notes),),
        FigureSpec("Distance of the chosen segment from the evidence: the agent, and the best score.", draw),
        runs=tuple(run for run in runs if run.method == PAPER.method),
    )  # fmt: skip
