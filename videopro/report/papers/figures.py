"""Draw the figures of the other papers, in the style of the report's own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from videopro.report.figures import EXTRA_COLOURS, LINE, METHODS, colours
from videopro.traces.scoring import Accuracy, BehaviourRow


def draw_distances(drawn: Sequence[tuple[str, Sequence[int], Sequence[int]]]) -> Figure:
    """VCA's Fig. 5: a panel per run; above the agent's choices, below the segments with the highest score."""
    figure = Figure(figsize=(max(4.6, 3.6 * len(drawn)), 4.2), layout="constrained")
    grid = figure.subplots(2, len(drawn), squeeze=False, sharex=True, sharey=True)
    widest = max(max(map(abs, distances)) for _, *both in drawn for distances in both)
    for column, (title, chosen, greedy) in enumerate(drawn):
        for axes, distances, colour, label in (
            (grid[0, column], chosen, METHODS["vca"], "the agent's choice"),
            (grid[1, column], greedy, METHODS["native"], "the highest score"),
        ):
            counts = Counter(distances)
            offsets = range(-widest, widest + 1)
            axes.bar(
                offsets, [counts[offset] / len(distances) for offset in offsets], width=0.86, color=colour
            )
            mean = sum(map(abs, distances)) / len(distances)
            axes.text(
                0.98, 0.94, f"{label}\nmean distance {mean:.2f}", transform=axes.transAxes,
                ha="right", va="top", fontsize=8,
            )  # fmt: skip
            axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol="", decimals=0))
            axes.grid(axis="y")
            axes.tick_params(length=0)
            if column == 0:
                axes.set_ylabel("choices, %")
        grid[0, column].set_title(title)
        grid[1, column].set_xlabel("segments from the evidence")
    return figure


def draw_behaviours(drawn: Sequence[tuple[str, Sequence[tuple[str, BehaviourRow]]]]) -> Figure:
    """DVD's Fig. 3: for each run the share, the steps and the accuracy of each class."""
    figure = Figure(figsize=(8.4, 0.6 + 2.2 * len(drawn)), layout="constrained")
    grid = figure.subplots(len(drawn), 3, squeeze=False, sharey="row")
    palette = (METHODS["program"], METHODS["adaptive"], METHODS["videopro"], *EXTRA_COLOURS)
    for row, (title, classes) in zip(grid, drawn, strict=True):
        names = [name for name, _ in classes]
        parts = [part for _, part in classes]
        columns = (
            ("questions, %", [100 * part.ratio for part in parts]),
            ("steps", [part.steps for part in parts]),
            ("accuracy, %", [math.nan if part.accuracy is None else 100 * part.accuracy for part in parts]),
        )
        for axes, (label, values) in zip(row, columns, strict=True):
            axes.barh(range(len(names)), values, height=0.62, color=palette[: len(names)])
            top = max((value for value in values if not math.isnan(value)), default=1.0) or 1.0
            axes.set_xlim(0, 100 if label == "accuracy, %" else 1.18 * top)
            for index, value in enumerate(values):
                if not math.isnan(value):
                    # Inside a long bar, so that nothing is cut off.
                    inside = value > 0.8 * axes.get_xlim()[1]
                    axes.text(
                        value, index, f" {value:.1f} ", va="center", ha="right" if inside else "left",
                        color="white" if inside else LINE, fontsize=8,
                    )  # fmt: skip
            axes.set_xlabel(label)
            axes.tick_params(length=0)
            axes.grid(axis="x")
        row[0].set_yticks(range(len(names)), names)
        row[0].invert_yaxis()
        row[0].set_title(title)
    return figure


def draw_frames(
    points: Sequence[tuple[str, float, Accuracy]], panels: Sequence[tuple[str, Mapping[str, Sequence[int]]]]
) -> Figure:
    """VideoAgent's Fig. 3: accuracy against frames seen; then, for each run, the frames of each type of
    question (violins with their mean)."""
    across = bool(points) + len(panels)
    figure = Figure(figsize=(max(5.0, 3.8 * across), 3.4), layout="constrained")
    grid = list(figure.subplots(1, across, squeeze=False)[0])
    if points:
        axes = grid.pop(0)
        palette = colours([(name, "") for name, _, _ in points])
        for name, seen, result in points:
            share, (low, high) = result.accuracy or 0.0, result.shown_ci95 or (math.nan, math.nan)
            errors = [[max(0.0, share - low)], [max(0.0, high - share)]]
            axes.errorbar(
                [seen], [share], yerr=errors, marker="o", color=palette[name], label=name, linestyle=""
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol="", decimals=0))
        axes.set_xlabel("frames seen")
        axes.set_ylabel("accuracy, %")
        axes.grid(axis="both")
        axes.tick_params(length=0)
        axes.legend(fontsize=7)
    for axes, (title, types) in zip(grid, panels, strict=True):
        names = list(types)
        for index, name in enumerate(names):
            frames = [float(count) for count in types[name]]
            if len(set(frames)) > 1:
                drawn = axes.violinplot(frames, [index], widths=0.8, showextrema=True)
                for body in drawn["bodies"]:
                    body.set_facecolor(METHODS["videoagent"])
            axes.plot([index], [sum(frames) / len(frames)], marker="o", color=LINE, linestyle="")
        axes.set_xticks(range(len(names)), names, rotation=30 if len(names) > 4 else 0)
        axes.set_title(title)
        axes.set_ylabel("frames seen")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        axes.tick_params(length=0)
    return figure
