"""Draw accuracy against cost: frames on the left, tokens on the right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from videopro.report.cost_point import CostPoint
from videopro.report.figures import colours

# A line is told by its colour and by its marker.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


def draw_costs(points: Sequence[CostPoint]) -> Figure:
    """A row of two panels per benchmark; one line per name, its budgets in order, the axes of cost
    logarithmic."""
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
        line = sorted((point for point in points if point.name == name and cost(point) > 0), key=_budget)
        if not line:
            continue
        shares = [point.accuracy.accuracy or 0.0 for point in line]
        # No bar where an interval would be over too few videos.
        spans = [point.accuracy.shown_ci95 or (math.nan, math.nan) for point in line]
        below = [max(0.0, share - low) for share, (low, _) in zip(shares, spans, strict=True)]
        above = [max(0.0, high - share) for share, (_, high) in zip(shares, spans, strict=True)]
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


def _budget(point: CostPoint) -> int:
    return point.budget or 0
