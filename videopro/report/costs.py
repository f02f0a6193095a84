"""Accuracy against cost: every method at every frame budget, costs raw and amortised (VCA's Fig. 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    difference_cell,
)
from videopro.traces import Trace
from videopro.traces.scoring import (
    TOKENS_NOTE,
    QuestionCosts,
    accuracy,
    cost_metrics,
    is_answerable,
    mean_costs,
    mean_frames_seen,
    paired_difference,
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
_PREPARED_NOTE = (
    "Made once for several questions, whichever run made it; no question's own cost holds any of it."
)
_BUDGET_NOTES = (
    "Budget: the limits --calls and --seconds. Calls: mean and most of a question. Rises: whether the whole "
    "interval of the difference, paired by question and clustered by video, is above 0; empty: too few "
    "videos for an interval.",
)
AT_LEAST_NOTE = "At least: the cost of something prepared was not recorded when it was made."


def costs(runs: Sequence[ReportRun]) -> Section:
    """Accuracy, frames seen, tokens and seconds of each run, and its preparations."""
    rows: list[dict[str, Cell]] = []
    parts: list[dict[str, Cell]] = []
    prepared: list[dict[str, Cell]] = []
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
            name: dict[str, Cell] = {BENCHMARK: data.title, "run": run.name}
            rows.append(
                name
                | {
                    "settings": run.preset,
                    "frames a call": run.frames,
                    "accuracy, %": run.lacks or accuracy_cell(right),
                    "questions": len(run.records),
                    "videos": len({record.video for record in run.records}),
                    "frames seen": Number(seen),
                    "planner frames": run.planner_frames,
                }
                | _spent(mean)
            )
            prepared += [name | row for row in _prepared(answerable)]
            # Without anything prepared all three are equal, and two of them would be noise.
            views = {"own": mean.own}
            if mean.raw != mean.own:
                bound = ", at least" if mean.is_at_least else ""
                views |= {f"amortised{bound}": mean.amortised, f"raw{bound}": mean.raw}
            parts += [
                name
                | {
                    "cost": kind,
                    "frames decoded": Number(cost.frames),
                    "calls": Number(cost.calls),
                    "tokens in": Number(cost.tokens_in, 0),
                    "tokens out": Number(cost.tokens_out, 0),
                    "seconds": Number(cost.seconds, 2),
                }
                for kind, cost in views.items()
            ]
            # A point needs both coordinates, and an accuracy that says something about the method.
            if right.accuracy is not None and not run.lacks:
                tokens = mean.amortised.tokens_in + mean.amortised.tokens_out
                frames = seen + run.planner_frames
                line, budget = _line(run), (run.frames or 0, *run.limits)
                points.append(CostPoint(line, run.method, data.title, budget, right, frames, tokens))
    if not rows:
        raise MissingRuns("costs: no run has a question whose video could be read")
    tables = [
        Table.of("Accuracy against cost", rows, *NOTES, *([AT_LEAST_NOTE] if at_least else [])),
        Table.of("Every cost per question", parts, NOTES[2], TOKENS_NOTE, suffix="all"),
    ]
    if budgets := list(_by_budget(runs)):
        tables.append(Table.of("Accuracy against the budget", budgets, *_BUDGET_NOTES, suffix="budget"))
    if prepared:
        tables.append(Table.of("What was prepared", prepared, _PREPARED_NOTE, suffix="prepared"))
    picture = FigureSpec(
        "Accuracy against the frames that a model was shown (the planner's among them) and against "
        "tokens in and out, amortised; a line joins a method's runs at several budgets. Intervals clustered "
        "by video.",
        partial(draw_costs, points),
    )
    drawn = picture if points else None
    return Section("costs", "Accuracy against cost", "as VCA's Figure 1", tuple(tables), drawn)


def _spent(mean: QuestionCosts) -> dict[str, Cell]:
    own, bound = mean.own, mean.is_at_least
    views = {"amortised": mean.amortised, "raw": mean.raw}
    return {
        "tokens in": Number(own.tokens_in, 0),
        "tokens out": Number(own.tokens_out, 0),
        "seconds": Number(own.seconds, 2),
        **{
            f"tokens in + out, {view}": _bounded(cost.tokens_in + cost.tokens_out, 0, bound)
            for view, cost in views.items()
        },
        **{f"seconds, {view}": _bounded(cost.seconds, 2, bound) for view, cost in views.items()},
    }


def _bounded(value: float, decimals: int, is_at_least: bool) -> Cell:
    number = Number(value, decimals)
    return f"at least {number}" if is_at_least else number


def _prepared(traces: Sequence[Trace]) -> Iterator[dict[str, Cell]]:
    """What was made once for the questions of a run, by kind."""
    for kind, totals in cost_metrics(traces)["preparations"].items():
        cost = totals["cost"]
        yield {
            "prepared": kind,
            "how many": totals["n"],
            "questions that use one": totals["questions"],
            "frames": Number(cost["frames"], 0),
            "calls": Number(cost["calls"], 0),
            "tokens in": Number(cost["tokens_in"], 0),
            "tokens out": Number(cost["tokens_out"], 0),
            "seconds": _bounded(cost["seconds"], 1, bool(totals["unknown"])),
            "minutes of sound": Number(totals["audio_seconds"] / 60) if kind == "transcript" else None,
        }


def _by_budget(runs: Sequence[ReportRun]) -> Iterator[dict[str, Cell]]:
    """The runs of each line that has several limits, the lowest first, and what each step up brings."""
    for data, group in by_dataset(runs).items():
        lines: dict[tuple[str, int | None], list[ReportRun]] = {}
        for run in group:
            lines.setdefault((_line(run), run.frames), []).append(run)
        for (line, _), members in lines.items():
            members.sort(key=lambda run: run.limits)
            for lower, run in zip([None, *members], members, strict=False):
                calls = [trace.cost.calls for trace in run.own_traces]
                if members[0].limits == members[-1].limits or not calls:
                    continue
                gain = paired_difference(run.records, [] if lower is None else lower.records)
                interval = gain.shown_ci95
                yield {
                    BENCHMARK: data.title,
                    "run": line,
                    "budget": run.budget,
                    "questions": len(run.records),
                    "calls": Number(sum(calls) / len(calls)),
                    "most calls": round(max(calls)),
                    "accuracy, %": run.lacks or accuracy_cell(accuracy(run.records)),
                    "points more than the row above": difference_cell(gain),
                    "rises": None if interval is None else "yes" if interval[0] > 0 else "no",
                }


def _line(run: ReportRun) -> str:
    """The run's name without its budgets."""
    name = run.name.removesuffix(f", {run.budget}").removesuffix(f", {run.frames} frames")
    if run.is_named:
        return name
    return name if run.method not in METHOD_TITLES or not run.preset else f"{name} ({run.preset})"
