"""What the ways of reasoning give and take: efficiency (Table 2) and the distribution of modes (Table 5).

Knows runs and tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from videopro.report.rules import notes_for, rescored_before, variants
from videopro.report.runs import ReportRun, by_dataset, protocol_notes
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, accuracy_cell, share
from videopro.scoring import accuracy, counted, program_metrics, records_of
from videopro.traces import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def planner_tokens(traces: Sequence[Trace]) -> float | None:
    """Tokens that the planner wrote, the mean over questions: the paper's output length. 0 where nothing was
    planned; None where programs were written by something that counts no tokens (the pocket teacher)."""
    written = [one for trace in traces for one in counted(trace) if one.program is not None or one.faults]
    tokens = sum(one.planning.tokens_out for one in written)
    if written and not tokens:
        return None
    return tokens / len(traces) if traces else None


def efficiency(runs: Sequence[ReportRun]) -> Section:
    """Accuracy beside output length and runtime, for each way of reasoning."""
    rows: list[tuple[Cell, ...]] = []
    chosen = [run for run in runs if not run.without]
    for data, own in by_dataset(chosen).items():
        for name, traces in _paradigms(own, runs):
            asked = [trace for trace in traces if trace.error is None]
            if not asked:
                continue
            numbers = program_metrics(asked)
            tokens = planner_tokens(asked)
            rows.append(
                (
                    data.title,
                    name,
                    accuracy_cell(accuracy(records_of(traces))),
                    None if tokens is None else Number(tokens, 0),
                    Number(numbers["output"]["characters"], 0),
                    Number(sum(trace.cost.seconds for trace in asked) / len(asked), 2),
                    Number(sum(trace.cost.calls for trace in asked) / len(asked), 1),
                    Number(sum(trace.cost.frames for trace in asked) / len(asked), 1),
                )
            )
    if not rows:
        raise MissingRuns("efficiency: none of the runs answered a question; finish one first")
    heads = (
        *(BENCHMARK, "method", "accuracy, %", "planner tokens", "characters written"),
        *("runtime, s", "model calls", "frames decoded"),
    )
    notes = [
        *notes_for(chosen),
        "Means over the questions that have an answer; intervals clustered by video.",
        "Planner tokens: the output length, over the programs that count; empty where the planner is no "
        "model that counts tokens.",
        "Refinements that were only stored for other thresholds are in no number.",
    ]
    if any("before refinement" in str(row[1]) for row in rows):
        notes.append(
            "Before refinement: the first answers of the run with refinement, without what came later."
        )
    return Section(
        "efficiency", "Performance and efficiency", "Table 2",
        (Table("Performance and efficiency by reasoning paradigm", heads, tuple(rows), tuple(notes)),),
        notes=tuple(protocol_notes(chosen)),
    )  # fmt: skip


def _paradigms(runs: Sequence[ReportRun], given: Sequence[ReportRun]) -> list[tuple[str, tuple[Trace, ...]]]:
    """Names and traces in the order of Table 2, by each rule of the final answer; a run with refinement also
    before it, unless the same planner has a run without."""
    found = []
    alone = {run.planning for run in runs if run.method == "adaptive"}
    for run in sorted(runs, key=lambda one: one.method_place):
        if run.method == "videopro" and run.planning not in alone:
            found += [(one.name, one.traces) for one in rescored_before(run, given)]
        found += [(one.name, one.settled) for one in variants(run, given)]
    return found


def modes(runs: Sequence[ReportRun]) -> Section:
    """How often a planner chose a single look or several steps, and how often it was refined."""
    rows: list[tuple[Cell, ...]] = []
    drawn: list[tuple[str, dict[str, Any]]] = []
    planned = [run for run in runs if run.plans and not run.without]
    several = len(by_dataset(planned)) > 1
    for data, own in by_dataset(planned).items():
        for run in own:
            found = program_metrics(run.settled)["modes"]
            if found["native"] is None:
                continue
            rows.append(
                (
                    data.title,
                    run.name,
                    len(run.traces),
                    *(share(found[one]) for one in ("native", "program", "none", "refined", "fallback")),
                )
            )
            drawn.append((f"{run.name}\n{data.title}" if several else run.name, found))
    if not rows:
        raise MissingRuns("modes: no run wrote programs; give one of method program, adaptive or videopro")
    heads = (
        *(BENCHMARK, "run", "questions", "native, %", "program, %", "no program, %", "refined, %"),
        "direct answer after all, %",
    )
    notes = (
        "Native, program and no program: what the first reply was; they make up all questions.",
        "Refined: a refinement that the run's own threshold called for.",
    )

    def draw() -> Figure:
        from videopro.report.figures import draw_modes

        return draw_modes(drawn)

    return Section(
        "modes", "Execution modes", "Table 5",
        (Table("Distribution of execution modes and refinements", heads, tuple(rows), notes),),
        FigureSpec(
            "Execution modes of the first program, and the share of questions that were refined.", draw
        ),
    )  # fmt: skip
