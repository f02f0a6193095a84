"""Draw the figures with matplotlib; each method has the same colour in all of them.

Figures are created without pyplot, so none stays open.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from videopro.traces.scoring import Accuracy, Bin


@dataclass(frozen=True)
class CostPoint:
    """A run in the figure of accuracy against cost."""

    name: str
    """The name of its line: the method, its model and settings."""
    method: str
    benchmark: str
    budget: tuple[float, ...]
    """Frames per call, then the limits of a question's calls and seconds."""
    accuracy: Accuracy
    frames: float
    """Frames seen, including the planner's."""
    tokens: float
    """Tokens in and out, amortised."""


STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#33373d",
    "axes.axisbelow": True,
    "xtick.color": "#55595f",
    "ytick.color": "#55595f",
    "grid.color": "#d8dbdf",
    "legend.frameon": False,
    "figure.dpi": 150,
    # Text as shapes: a page looks alike without the font. A fixed salt: reports of equal runs are equal
    # files. Type 42: journals refuse type 3 fonts.
    "svg.fonttype": "path",
    "svg.hashsalt": "videopro",
    "pdf.fonttype": 42,
}
METHODS: Mapping[str, str] = {
    "native": "#8d99ae",
    "program": "#e9a23b",
    "adaptive": "#2a9d8f",
    "videopro": "#1d5b9a",
    "videoagent": "#b5446e",
    "dvd": "#6a4c93",
    "vca": "#c8553d",
    "lvagent": "#7a9e2f",
}
"""A colour for each method; more runs of the same method use EXTRA_COLOURS."""
EXTRA_COLOURS = ("#4f9bd9", "#5c5f66", "#a26769", "#3d7068", "#b08d3c", "#9b72aa")
RIGHT, WRONG, LINE = "#2a9d8f", "#e07a5f", "#22262b"
GRID_WIDTH = 3
FEW_ANSWERS = 5
"""Bars with fewer answers are faint: their accuracy means little."""
HALO = withStroke(linewidth=2.0, foreground="#ffffffb0")
"""Keeps an interval readable on a dark bar."""


def colours(drawn: Sequence[tuple[str, str]]) -> dict[str, str]:
    """A colour for each name, from pairs of name and method, in order."""
    by_name: dict[str, str] = {}
    extra = cycle(EXTRA_COLOURS)
    for name, method in drawn:
        if name not in by_name:
            is_free = method in METHODS and METHODS[method] not in by_name.values()
            by_name[name] = METHODS[method] if is_free else next(extra)
    return by_name


def _percent(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol="", decimals=0))
    axes.grid(axis="y")
    axes.tick_params(length=0)


def _panels(
    count: int, across: int, width: float, above: float, *, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, Sequence[Axes]]:
    """A figure of panels in rows; `above`: inches for the legend."""
    down = math.ceil(count / across)
    figure = Figure(figsize=(width, above + 2.9 * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=sharex, sharey=sharey)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    return figure, list(grid.flat[:count])


def _errors(result: Accuracy) -> tuple[float, float]:
    """The lengths of the interval below and above the accuracy; NaN if none is shown."""
    if result.accuracy is None or result.shown_ci95 is None:
        return math.nan, math.nan
    low, high = result.shown_ci95
    # If all are correct, rounding may put the interval's end just below the accuracy.
    return max(0.0, result.accuracy - low), max(0.0, high - result.accuracy)


def draw_modes(drawn: Sequence[tuple[str, Mapping[str, float]]]) -> Figure:
    """One stacked bar per run (native, program, no program), and a thin bar for the share refined."""
    figure = Figure(figsize=(7.2, 0.9 + 0.5 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    names = [name for name, _ in drawn]
    positions = range(len(drawn))
    start = [0.0] * len(drawn)
    kinds = (
        ("native", "one look", METHODS["native"]),
        ("program", "several steps", METHODS["videopro"]),
        ("none", "no program", WRONG),
    )
    for kind, label, colour in kinds:
        widths = [modes[kind] for _, modes in drawn]
        if not any(widths):
            continue
        axes.barh(positions, widths, left=start, height=0.56, color=colour, label=label)
        for position, width, left in zip(positions, widths, start, strict=True):
            # A narrower part has no room for its number.
            if width >= 0.06:
                axes.text(
                    left + width / 2, position, f"{100 * width:.0f}", color="white", ha="center", va="center"
                )
        start = [left + width for left, width in zip(start, widths, strict=True)]
    if any(modes["refined"] for _, modes in drawn):
        refined = [modes["refined"] for _, modes in drawn]
        below = [position + 0.39 for position in positions]
        axes.barh(below, refined, height=0.14, color=METHODS["program"], label="refined")
        for height, width in zip(below, refined, strict=True):
            if width:
                axes.text(width + 0.008, height, f"{100 * width:.0f}", ha="left", va="center", fontsize=7)
    axes.set_yticks(list(positions), names)
    axes.set_ylim(len(drawn) - 0.42, -0.4)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol="", decimals=0))
    axes.set_xlabel("questions, %")
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def draw_confidence(drawn: Sequence[tuple[str, Sequence[Bin], str]]) -> Figure:
    """One panel per run: bars of correct and wrong answers, and the accuracy of each confidence bin."""
    across = min(GRID_WIDTH, len(drawn))
    figure, panels = _panels(len(drawn), across, max(4.6, 3.4 * across), 0.5, sharex=True)
    for number, (axes, (title, bins, measures)) in enumerate(zip(panels, drawn, strict=True)):
        middles = [(part.low + part.high) / 2 for part in bins]
        right = [round((part.accuracy.accuracy or 0) * part.accuracy.n) for part in bins]
        wrong = [part.accuracy.n - count for part, count in zip(bins, right, strict=True)]
        faint = [0.25 if part.accuracy.n < FEW_ANSWERS else 0.85 for part in bins]
        axes.bar(middles, right, width=0.086, color=[(RIGHT, alpha) for alpha in faint])
        axes.bar(middles, wrong, width=0.086, bottom=right, color=[(WRONG, alpha) for alpha in faint])
        # Wrap titles at the panel's width in characters.
        axes.set_title("\n".join(wrap for line in title.split("\n") for wrap in textwrap.wrap(line, 34)))
        if number % across == 0:
            axes.set_ylabel("answers")
        axes.tick_params(length=0)
        axes.set_ylim(0, 1.08 * max(1, *(part.accuracy.n for part in bins)))
        over = axes.twinx()
        filled = [part for part in bins if part.accuracy.accuracy is not None]
        at = [(part.low + part.high) / 2 for part in filled]
        shares = [part.accuracy.accuracy or 0.0 for part in filled]
        over.plot([0, 1], [0, 1], color="#a5abb3", linewidth=1, linestyle=(0, (4, 3)))
        errors = list(zip(*(_errors(part.accuracy) for part in filled), strict=True))
        over.errorbar(at, shares, yerr=errors, color=LINE, linewidth=1.4, elinewidth=0.9)
        # Hollow where it is a share of few answers.
        faces = ["white" if part.accuracy.n < FEW_ANSWERS else LINE for part in filled]
        over.scatter(at, shares, s=13, color=LINE, zorder=3, facecolors=faces)
        over.set_ylim(0, 1.02)
        _percent(over)
        over.grid(visible=False)
        if number % across == across - 1 or number == len(drawn) - 1:
            over.set_ylabel("accuracy, %")
        over.spines["right"].set_visible(False)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(f"confidence\n{measures}")
        if number == 0:
            handles = [
                Patch(facecolor=(RIGHT, 0.85), label="right"),
                Patch(facecolor=(WRONG, 0.85), label="wrong"),
                Line2D([], [], color=LINE, linewidth=1.4, marker="o", markersize=3.6, label="accuracy"),
            ]
            figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def draw_thresholds(
    drawn: Sequence[tuple[str, Sequence[tuple[float, Accuracy, float, float, float | None]], float]],
) -> Figure:
    """Accuracy over tau, and in a panel below the share of questions refined."""
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    palette = (METHODS["videopro"], METHODS["program"], METHODS["adaptive"], *EXTRA_COLOURS)
    for index, (name, points, tau) in enumerate(drawn):
        colour = palette[index % len(palette)]
        taus = [point[0] for point in points]
        spans = [point[1].shown_ci95 or (math.nan, math.nan) for point in points]
        low, high = ([span[end] for span in spans] for end in (0, 1))
        shares = [math.nan if point[1].accuracy is None else point[1].accuracy for point in points]
        above.fill_between(taus, low, high, color=colour, alpha=0.14, linewidth=0)
        above.plot(taus, shares, color=colour, marker="o", markersize=4, linewidth=1.8, label=name)
        below.plot(
            taus, [point[2] for point in points], color=colour, marker="o", markersize=3, linewidth=1.4
        )
        for axes in (above, below):
            axes.axvline(tau, color=colour, linewidth=1, linestyle=":")
    for axes in (above, below):
        _percent(axes)
    above.set_ylabel("accuracy, %")
    below.set_ylabel("refined, %")
    below.set_ylim(bottom=0)
    below.set_xlabel("confidence threshold tau")
    below.set_xticks([point[0] for point in drawn[0][1]][::2])
    figure.legend(loc="outside upper center", ncols=1 if len(drawn) < 3 else 2)
    return figure


def draw_durations(
    panels: Sequence[tuple[str, Sequence[tuple[str, str, Sequence[Accuracy]]]]], bins: Sequence[str]
) -> Figure:
    """One panel per benchmark: a group of bars per duration bin, one bar per run."""
    most = max(len(bars) for _, bars in panels)
    across = min(2, len(panels))
    width = max(5.2, min(5.6, 2.6 + 0.55 * most) * across)
    figure, grid = _panels(len(panels), across, width, 0.6, sharey=True)
    palette = colours([(name, method) for _, bars in panels for name, method, _ in bars])
    labelled: dict[str, Any] = {}
    for axes, (title, bars) in zip(grid, panels, strict=True):
        width = 0.82 / len(bars)
        for index, (name, _, parts) in enumerate(bars):
            at = [i + (index - (len(bars) - 1) / 2) * width for i in range(len(parts))]
            there = [(x, part) for x, part in zip(at, parts, strict=True) if part.accuracy is not None]
            labelled[name] = axes.bar(
                [x for x, _ in there],
                [part.accuracy or 0.0 for _, part in there],
                width=width * 0.92,
                yerr=list(zip(*(_errors(part) for _, part in there), strict=True)) if there else None,
                color=palette[name],
                error_kw={"elinewidth": 1.0, "ecolor": LINE, "path_effects": [HALO]},
            )
        counts = [max(parts[i].n for _, _, parts in bars) for i in range(len(bins))]
        axes.set_xticks(range(len(bins)), [f"{name}\nn = {n}" for name, n in zip(bins, counts, strict=True)])
        axes.set_title(title)
        axes.set_ylim(0, 1)
        _percent(axes)
        axes.tick_params(labelleft=True)
        axes.set_ylabel("accuracy, %")
    figure.legend(labelled.values(), labelled.keys(), loc="outside upper center", ncols=min(3, len(labelled)))
    return figure


# Colour and marker identify a line.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


def draw_costs(points: Sequence[CostPoint]) -> Figure:
    """A row of two panels per benchmark; one line per name, with its budgets in order and logarithmic cost
    axes."""
    benchmarks = list(dict.fromkeys(point.benchmark for point in points))
    figure = Figure(figsize=(8.6, 0.9 + 3.3 * len(benchmarks)), layout="constrained")
    grid = figure.subplots(len(benchmarks), 2, squeeze=False, sharey="row")
    names = list(dict.fromkeys(point.name for point in points))
    palette = colours([(point.name, point.method) for point in points])
    for row, benchmark in zip(grid, benchmarks, strict=True):
        group = [point for point in points if point.benchmark == benchmark]
        _panel(row[0], group, names, palette, lambda point: point.frames, "frames shown to a model")
        _panel(row[1], group, names, palette, lambda point: point.tokens, "tokens in and out, amortised")
        row[0].set_title(benchmark)
        row[0].set_ylabel("accuracy, %")
    handles = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = [name for name in names if name in handles]
    figure.legend(
        [handles[name] for name in labels], labels, loc="outside upper center", ncols=min(4, len(labels))
    )
    return figure


def _panel(
    axes: Axes,
    points: Sequence[CostPoint],
    names: Sequence[str],
    palette: dict[str, str],
    cost: Callable[[CostPoint], float],
    label: str,
) -> None:
    for index, name in enumerate(names):
        line = [point for point in points if point.name == name and cost(point) > 0]
        line.sort(key=lambda point: point.budget)
        if not line:
            continue
        shares = [point.accuracy.accuracy or 0.0 for point in line]
        below, above = zip(*(_errors(point.accuracy) for point in line), strict=True)
        axes.errorbar(
            [cost(point) for point in line], shares, yerr=(below, above), label=name, color=palette[name],
            marker=MARKERS[index % len(MARKERS)], markersize=5.5, linewidth=1.6, elinewidth=0.8, alpha=0.95,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    values = [cost(point) for point in points if cost(point) > 0]
    if values and max(values) < 10 * min(values):
        # Less than a decade: label what is there, since there may be no power of ten.
        axes.set_xticks(sorted({float(f"{value:.2g}") for value in (min(values), max(values))}))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol="", decimals=0))
    axes.grid(axis="both")
    axes.tick_params(length=0)
    axes.set_xlabel(label)
