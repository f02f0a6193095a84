"""VideoAgent: its Tables 1 to 8 and Fig. 3 (ECCV 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from videopro.report.papers.building import build_table, own_runs
from videopro.report.papers.files import read_paper
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.section import FigureSpec, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table
from videopro.traces.scoring import GROUP_SEPARATOR, Accuracy, accuracy, is_answerable, mean_frames_seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER, TABLES = read_paper("videoagent")
_ROUNDS = TABLES[-1]
NEXTQA_TYPES = {"C": "causal", "T": "temporal", "D": "descriptive"}
PUBLISHED_FRAMES = {"descriptive": 5.9, "causal": 7.1, "temporal": 7.8}
"""Mean frames on NExT-QA by type of question (section 4.4)."""


def frames_by_type(run: ReportRun) -> dict[str, list[int]]:
    """The frames that each question looked at, by the benchmark's first kind of group (of NExT-QA: causal,
    temporal and descriptive)."""
    by_type: dict[str, list[int]] = {}
    kinds = run.protocol.groups
    for trace in run.own_traces:
        if not is_answerable(trace) or not kinds or kinds[0] not in trace.groups:
            continue
        for name in trace.groups[kinds[0]].split(GROUP_SEPARATOR):
            if run.dataset.benchmark == "nextqa":
                name = NEXTQA_TYPES.get(name[:1], name)
            by_type.setdefault(name, []).append(trace.frames_seen)
    return dict(sorted(by_type.items()))


def frame_efficiency(runs: Sequence[ReportRun]) -> Section:
    """Accuracy against frames by the number of rounds, and the frames that each type of question needs."""
    section = build_table(_ROUNDS, runs)
    rows: list[tuple[Cell, ...]] = []
    panels: list[tuple[str, dict[str, list[int]]]] = []
    for data, group in by_dataset(runs).items():
        for run in own_runs(group, PAPER):
            frames_of = frames_by_type(run)
            for name, frames in frames_of.items():
                mean = PUBLISHED_FRAMES.get(name) if data.benchmark == "nextqa" else None
                rows.append(
                    (data.title, run.name, name, len(frames), min(frames), Number(fmean(frames), 1),
                     max(frames), None if mean is None else Number(mean))
                )  # fmt: skip
            if frames_of:
                panels.append((f"{run.name}\n{data.title}", frames_of))
    heads = (BENCHMARK, "run", "type", "questions", "least", "mean frames", "most", "mean, published")
    published = ", ".join(f"{name} {mean}" for name, mean in PUBLISHED_FRAMES.items())
    by_type = Table(
        "Frames by type of question", heads, tuple(rows),
        (f"Published means on NExT-QA: {published}.",), suffix="types",
    )  # fmt: skip
    points = [point for run in runs if run.method == PAPER.method and (point := _point(run)) is not None]

    def draw() -> Figure:
        from videopro.report.papers.figures import draw_frames

        return draw_frames(points, panels)

    tables = (*section.tables, by_type) if rows else section.tables
    caption = "Accuracy against frames seen, and the frames that each type of question needs."
    # Of models that cannot follow the prompts, on a benchmark without types, there is nothing to draw.
    figure = FigureSpec(caption, draw) if points or panels else None
    return replace(section, tables=tables, figure=figure)


def _point(run: ReportRun) -> tuple[str, float, Accuracy] | None:
    seen = mean_frames_seen([trace for trace in run.own_traces if is_answerable(trace)])
    result = accuracy(run.records)
    return None if run.lacks or seen is None or result.accuracy is None else (run.name, seen, result)
