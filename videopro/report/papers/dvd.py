"""Deep Video Discovery: its Tables 2 to 5 and Fig. 3 (version 3; Table 1 lists the tools)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from videopro.report.papers.building import own_runs
from videopro.report.papers.files import read_paper
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, share
from videopro.traces.scoring import BehaviourRow, behaviour_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER, TABLES = read_paper("dvd")
TITLES = {
    "global_browse_only": "Global Browse only",
    "simple_action": "simple action",
    "iterative_search": "iterative search",
    "frame_inspect_trap": "Frame Inspect trap",
    "clip_search_trap": "Clip Search trap",
    None: "no tool",
}


def behaviours(runs: Sequence[ReportRun]) -> Section:
    """The five classes of tool use, with their share, steps and accuracy."""
    rows: list[tuple[Cell, ...]] = []
    drawn: list[tuple[str, list[tuple[str, BehaviourRow]]]] = []
    for data, group in by_dataset(runs).items():
        for run in own_runs(group, PAPER):
            classes = [(TITLES[part.behaviour], part) for part in behaviour_rows(run.own_traces)]
            if not classes:
                continue
            if run.lacks:
                # Neither the table nor the figure shows an accuracy that says nothing about the method.
                classes = [(title, replace(part, accuracy=None)) for title, part in classes]
            drawn.append((f"{run.name}\n{data.title}", classes))
            for title, part in classes:
                right = run.lacks or share(part.accuracy)
                rows.append(
                    (data.title, run.name, title, part.questions, share(part.ratio), Number(part.steps, 1),
                     right)
                )  # fmt: skip
    if not rows:
        raise MissingRuns(
            "dvd-fig3: no run of method dvd with all tools answered a question; make one with `python -m "
            "videopro infer --method dvd ...`"
        )
    heads = (BENCHMARK, "run", "behaviour", "questions", "share, %", "steps", "accuracy, %")
    notes = (
        "Classes by the order of tool calls; a trap is more than three calls of one tool in a row. Steps: "
        "requests for the next action.",
        "Published (LVBench): with o3, a simple action takes 5.2 steps and an iterative search 8.0; GPT-4o "
        "takes a simple action in 91.4 % of the questions, and 4.6 steps on average.",
    )

    def draw() -> Figure:
        from videopro.report.papers.figures import draw_behaviours

        return draw_behaviours(drawn)

    return Section(
        "dvd-fig3", "Behaviour in the use of tools", "Figure 3 of Deep Video Discovery",
        (Table("Behaviour in the use of tools", heads, tuple(rows), notes),),
        FigureSpec("Share, steps and accuracy of each class of behaviour.", draw),
        runs=tuple(run for run in runs if run.method == PAPER.method),
    )  # fmt: skip
