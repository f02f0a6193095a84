"""Accuracy over tau (Figure 4), from a single run that stored refinements up to the largest tau."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from videopro.report.rules import NOTE, natives_for
from videopro.report.runs import ReportRun, by_dataset, protocol_notes
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, accuracy_cell, share
from videopro.traces import AnswerRule, NativeTraces, NoFallback, rescore_at_tau
from videopro.traces.scoring import (
    PLANNER_TOKENS_NOTE,
    PLANNER_TOKENS_OUT,
    Accuracy,
    accuracy,
    is_answerable,
    planner_tokens_out,
    records_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TAUS = tuple(round(0.4 + 0.05 * step, 2) for step in range(11))
"""The range of the paper's Figure 4."""


def refined_below(run: ReportRun) -> float:
    """The confidence below which a run stored refinements. Raises MissingRuns for a run without
    refinement."""
    method = run.identity["method"]
    if run.method != "videopro" or method["max_rounds"] < 1:
        raise MissingRuns(
            f"tau: {run.path} (method {run.method}) does not refine; give a run of `videopro infer --method "
            "videopro --refine-below 0.9`"
        )
    stored = method["refine_below"]
    return float(method["tau"] if stored is None else stored)


Point: TypeAlias = tuple[float, Accuracy, float, float, float | None]
"""tau, accuracy, share of questions refined, seconds and planner tokens per question."""


def sweep(
    run: ReportRun,
    taus: Sequence[float] = TAUS,
    rule: AnswerRule | None = None,
    natives: NativeTraces | None = None,
) -> list[Point]:
    """The run rescored under each tau, by its own rule for the final answer or by `rule`. `natives`: direct
    answers for a fallback that the run did not use.

    Raises MissingRuns for a tau above what the run stored, and NoFallback if a direct answer is missing.
    """
    stored = refined_below(run)
    if max(taus) > stored:
        raise MissingRuns(
            f"tau: {run.path} stored refinements of answers below {stored:g} only, but the sweep goes to "
            f"{max(taus):g}; run again with --refine-below {max(taus):g} and another --output, or "
            f"sweep to {stored:g} with --taus"
        )
    points = []
    for tau in taus:
        traces = [
            rescore_at_tau(trace, tau, rule or run.rule, (natives or {}).get(trace.question_id))
            for trace in run.traces
        ]
        without_error = [trace for trace in traces if trace.error is None]
        if not without_error:
            raise MissingRuns(f"tau: {run.path} answered no question; repeat its errors with --redo-errors")
        answerable = [trace for trace in traces if is_answerable(trace)]
        points.append(
            (
                tau,
                accuracy(records_of(traces)),
                sum(trace.refined > 0 for trace in without_error) / len(without_error),
                sum(trace.cost.seconds for trace in answerable) / len(answerable),
                planner_tokens_out(answerable),
            )
        )
    return points


RULES: Mapping[str, AnswerRule] = {
    "last program, %": AnswerRule("last"),
    "+ native fallback, %": AnswerRule("last", "native"),
    "last answer, %": AnswerRule("last-answered"),
    "last answer + native fallback, %": AnswerRule("last-answered", "native"),
}


def _by_rule(
    run: ReportRun, taus: Sequence[float], rule: AnswerRule, natives: NativeTraces
) -> list[Point] | None:
    try:
        return sweep(run, taus, rule, natives)
    except NoFallback:
        return None


def thresholds(runs: Sequence[ReportRun], taus: Sequence[float] = TAUS) -> Section:
    """The sweep over tau for every run with refinement and all modules."""
    chosen = [run for run in runs if run.method == "videopro" and not run.without]
    if not chosen:
        raise MissingRuns(
            "tau: no run refines; give a run of `videopro infer --method videopro --refine-below 0.9`"
        )
    rows: list[tuple[Cell, ...]] = []
    drawn = []
    several = len(by_dataset(chosen)) > 1
    for data, group in by_dataset(chosen).items():
        for run in group:
            natives = natives_for(run, runs)
            by_rule = [_by_rule(run, taus, rule, natives) for rule in RULES.values()]
            for index, tau in enumerate(taus):
                points = [None if curve is None else curve[index] for curve in by_rule]
                # None of these depends on the rule for the final answer.
                _, _, refined, seconds, tokens = next(point for point in points if point is not None)
                rows.append(
                    (
                        data.title,
                        run.name,
                        f"{tau:.2f}",
                        *(None if point is None else accuracy_cell(point[1]) for point in points),
                        share(refined),
                        None if tokens is None else Number(tokens, 0),
                        Number(seconds, 2),
                    )
                )
            title = data.title if several and len(group) == 1 else f"{run.name}, {data.title}"
            run_curve = _by_rule(run, taus, run.rule, natives)
            drawn.append(
                (
                    f"{title if several else run.name} ({run.rule.title})",
                    # Without the direct answers of its fallback, a run is drawn by its last programs.
                    run_curve if run_curve is not None else by_rule[0] or [],
                    float(run.identity["method"]["tau"]),
                )
            )
    heads = (BENCHMARK, "run", "tau", *RULES, "refined, %", PLANNER_TOKENS_OUT, "runtime, s")
    notes = (
        "Each row is what the run would have recorded with that threshold, computed from the refinements "
        "that it stored; no question was answered again. Runtime excludes the fallback.",
        NOTE,
        PLANNER_TOKENS_NOTE,
    )

    def draw() -> Figure:
        from videopro.report.figures import draw_thresholds

        return draw_thresholds(drawn)

    return Section(
        "tau", "Confidence threshold", "Figure 4",
        (Table("Accuracy at varying confidence thresholds", heads, tuple(rows), notes),),
        FigureSpec("Accuracy over the threshold tau with 95 % intervals, and the share of questions that are "
                "refined, by the run's own rule of the final answer; the dotted line is its own tau.", draw),
        notes=tuple(protocol_notes(chosen)), runs=tuple(chosen),
    )  # fmt: skip
