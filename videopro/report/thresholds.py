"""Accuracy over tau (Figure 4), from one run that stored refinements up to the largest one.

Knows runs, hindsight and tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from videopro.hindsight import under
from videopro.report.paradigms import planner_tokens
from videopro.report.runs import Run, by_dataset, protocol_notes
from videopro.report.section import Drawing, NotEnough, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, accuracy_cell, share
from videopro.runner.summary import records_of
from videopro.scoring import Accuracy, accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TAUS = tuple(round(0.4 + 0.05 * step, 2) for step in range(11))
"""The interval of the paper's Figure 4."""


def stored_below(run: Run) -> float:
    """The confidence below which a run has refinements of its answers. Raises NotEnough for a run that makes
    none."""
    method = run.identity["method"]
    if run.method != "videopro" or method["max_rounds"] < 1:
        raise NotEnough(
            f"tau: {run.path} (method {run.method}) refines nothing; give a run of `videopro.infer --method "
            "videopro --refine-below 0.9`"
        )
    stored = method["refine_below"]
    return float(method["tau"] if stored is None else stored)


def sweep(run: Run, taus: Sequence[float] = TAUS) -> list[tuple[float, Accuracy, float, float, float | None]]:
    """For each tau: accuracy, share of questions refined, seconds and planner tokens a question.

    Raises NotEnough for a tau beyond what the run stored.
    """
    stored = stored_below(run)
    if max(taus) > stored:
        raise NotEnough(
            f"tau: {run.path} stored refinements of answers below {stored:g} only, and the sweep goes to "
            f"{max(taus):g}; make the run anew with --refine-below {max(taus):g} (into another --output), or "
            f"sweep to {stored:g} with --taus"
        )
    found = []
    for tau in taus:
        traces = [under(trace, tau, run.identity["method"]["final"]) for trace in run.traces]
        asked = [trace for trace in traces if trace.error is None]
        if not asked:
            raise NotEnough(f"tau: {run.path} answered no question; redo its errors with --redo-errors")
        found.append(
            (
                tau,
                accuracy(records_of(traces)),
                sum(trace.refined > 0 for trace in asked) / len(asked),
                sum(trace.cost.seconds for trace in asked) / len(asked),
                planner_tokens(asked),
            )
        )
    return found


def thresholds(runs: Sequence[Run], taus: Sequence[float] = TAUS) -> Section:
    """The sweep of every run with refinement and all modules."""
    chosen = [run for run in runs if run.method == "videopro" and not run.without]
    if not chosen:
        raise NotEnough(
            "tau: no run refines; give a run of `videopro.infer --method videopro --refine-below 0.9`"
        )
    rows: list[tuple[Cell, ...]] = []
    drawn = []
    several = len(by_dataset(chosen)) > 1
    for data, own in by_dataset(chosen).items():
        for run in own:
            found = sweep(run, taus)
            for tau, right, refined, seconds, tokens in found:
                rows.append(
                    (
                        data.title,
                        run.name,
                        f"{tau:.2f}",
                        accuracy_cell(right),
                        share(refined),
                        None if tokens is None else Number(tokens, 0),
                        Number(seconds, 2),
                    )
                )
            title = data.title if several and len(own) == 1 else f"{run.name}, {data.title}"
            drawn.append((title if several else run.name, found, float(run.identity["method"]["tau"])))
    heads = (BENCHMARK, "run", "tau", "accuracy, %", "refined, %", "planner tokens", "runtime, s")
    notes = (
        "Each row is what the run would have recorded with that threshold, told from the refinements that it "
        "stored; no question was answered again.",
    )

    def draw() -> Figure:
        from videopro.report.figures import draw_thresholds

        return draw_thresholds(drawn)

    return Section(
        "tau", "Confidence threshold", "Figure 4",
        (Table("Accuracy at varying confidence thresholds", heads, tuple(rows), notes),),
        Drawing("Accuracy over the threshold tau with 95 % intervals, and the share of questions that are "
                "refined; the dotted line is the run's own tau.", draw),
        notes=tuple(protocol_notes(chosen)),
    )  # fmt: skip
