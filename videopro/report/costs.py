"""Accuracy against cost: every method at every frame budget, costs raw and amortised (VCA's Fig. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from videopro.report.figures import CostPoint, draw_costs
from videopro.report.runs import METHOD_TITLES, ReportRun, by_dataset
from videopro.report.table import (
    BENCHMARK,
    Cell,
    FigureSpec,
    MissingRuns,
    Number,
    Section,
    Table,
    accuracy_cell,
)
from videopro.traces import Cost, Trace
from videopro.traces.scoring import (
    TOKENS_NOTE,
    QuestionCosts,
    accuracy,
    cost_metrics,
    is_answerable,
    mean_costs,
    mean_frames_seen,
)

NOTES = (
    "Means per question over those whose video could be read; intervals clustered by video.",
    "Frames seen: distinct moments of the video that the question's calls and steps looked at. Planner "
    "frames: how many the planner was shown in addition.",
    "Own: what was done for the question alone. Amortised: own, plus its share of the index, the database or "
    "the selection, divided by the questions of the run that used it. Raw: own, plus all of that and the "
    "original cost of reused replies, as if the question were the only one.",
    "Settings: equal, an agent shows as many frames a call as the other methods; paper, the numbers of its "
    "own paper.",
    TOKENS_NOTE,
)
AT_LEAST_NOTE = "At least: the cost of something prepared was not recorded when it was made."


def costs(runs: Sequence[ReportRun]) -> Section:
    """Accuracy, frames seen, tokens and seconds of each run, and what was prepared for it."""
    rows: list[tuple[Cell, ...]] = []
    parts: list[tuple[Cell, ...]] = []
    prepared: list[tuple[Cell, ...]] = []
    points: list[CostPoint] = []
    at_least = False
    for data, group in by_dataset(runs).items():
        for run in sorted(group, key=lambda run: (run.method_rank, run.model, run.preset, run.frames or 0)):
            answerable = [trace for trace in run.own_traces if is_answerable(trace)]
            mean = mean_costs(answerable)
            if mean is None:
                continue
            at_least = at_least or mean.is_at_least
            seen = mean_frames_seen(answerable) or 0.0
            right = accuracy(run.records)
            rows.append((data.title, run.name, run.preset, run.frames, run.lacks or accuracy_cell(right),
                         len(run.records), len({record.video for record in run.records}),
                         Number(seen, 1), run.planner_frames, *_spent(mean)))  # fmt: skip
            prepared += [(data.title, run.name, *row) for row in _prepared(answerable)]
            parts += [(data.title, run.name, kind, *_all(cost)) for kind, cost in _views(mean)]
            # A point needs both coordinates, and an accuracy that says something about the method.
            if right.accuracy is not None and not run.lacks:
                tokens = mean.amortised.tokens_in + mean.amortised.tokens_out
                points.append(
                    CostPoint(_line(run), run.method, data.title, run.frames, right,
                              seen + run.planner_frames, tokens)
                )  # fmt: skip
    if not rows:
        raise MissingRuns("costs: none of the runs has a question whose video could be read")
    heads = (
        *(BENCHMARK, "run", "settings", "frames a call", "accuracy, %", "questions", "videos"),
        *("frames seen", "planner frames", "tokens in", "tokens out", "seconds"),
        *("tokens in + out, amortised", "tokens in + out, raw", "seconds, amortised", "seconds, raw"),
    )
    all_heads = (BENCHMARK, "run", "cost", "frames decoded", "calls", "tokens in", "tokens out", "seconds")
    notes = (*NOTES, *((AT_LEAST_NOTE,) if at_least else ()))

    picture = FigureSpec(
        "Accuracy against the frames that a model was shown (the planner's among them) and against "
        "tokens in and out, amortised; a line joins a method's runs at several budgets. Intervals clustered "
        "by video.",
        partial(draw_costs, points),
    )
    return Section(
        "costs", "Accuracy against cost", "as VCA's Figure 1",
        (
            Table("Accuracy against cost", heads, tuple(rows), notes),
            Table("Every cost per question", all_heads, tuple(parts), (NOTES[2], TOKENS_NOTE), suffix="all"),
            *([_prepared_table(prepared)] if prepared else []),
        ),
        picture if points else None,
    )  # fmt: skip


def _spent(mean: QuestionCosts) -> tuple[Cell, ...]:
    direct, shared, raw = mean.own, mean.amortised, mean.raw
    return (
        Number(direct.tokens_in, 0), Number(direct.tokens_out, 0), Number(direct.seconds, 2),
        _bounded(shared.tokens_in + shared.tokens_out, 0, mean.is_at_least),
        _bounded(raw.tokens_in + raw.tokens_out, 0, mean.is_at_least),
        _bounded(shared.seconds, 2, mean.is_at_least),
        _bounded(raw.seconds, 2, mean.is_at_least),
    )  # fmt: skip


def _bounded(value: float, decimals: int, is_at_least: bool) -> Cell:
    number = Number(value, decimals)
    return f"at least {number}" if is_at_least else number


def _views(mean: QuestionCosts) -> list[tuple[str, Cost]]:
    if mean.raw == mean.own:
        return [("own", mean.own)]
    bound = ", at least" if mean.is_at_least else ""
    return [("own", mean.own), (f"amortised{bound}", mean.amortised), (f"raw{bound}", mean.raw)]


def _all(cost: Cost) -> tuple[Cell, ...]:
    return (
        Number(cost.frames, 1), Number(cost.calls, 1), Number(cost.tokens_in, 0),
        Number(cost.tokens_out, 0), Number(cost.seconds, 2),
    )  # fmt: skip


def _prepared(traces: Sequence[Trace]) -> list[tuple[Cell, ...]]:
    """What was made once for the questions of a run, by kind."""
    rows: list[tuple[Cell, ...]] = []
    for kind, totals in cost_metrics(traces)["preparations"].items():
        cost, minutes = totals["cost"], totals["audio_seconds"] / 60
        seconds = _bounded(cost["seconds"], 1, bool(totals["unknown"]))
        rows.append(
            (kind, totals["n"], totals["questions"], Number(cost["frames"], 0), Number(cost["calls"], 0),
             Number(cost["tokens_in"], 0), Number(cost["tokens_out"], 0), seconds,
             Number(minutes, 1) if kind == "transcript" else None)
        )  # fmt: skip
    return rows


def _prepared_table(rows: Sequence[tuple[Cell, ...]]) -> Table:
    heads = (
        *(BENCHMARK, "run", "prepared", "how many", "questions that use one", "frames", "calls"),
        *("tokens in", "tokens out", "seconds", "minutes of sound"),
    )
    note = "Made once for several questions, whichever run made it; no question's own cost holds any of it."
    return Table("What was prepared", heads, tuple(rows), (note,), suffix="prepared")


def _line(run: ReportRun) -> str:
    """The run's name without its budget."""
    name = run.name.removesuffix(f", {run.frames} frames")
    if run.is_named:
        return name
    return name if run.method not in METHOD_TITLES or not run.preset else f"{name} ({run.preset})"
