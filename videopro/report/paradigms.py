"""Reasoning paradigms compared: efficiency (Table 2) and the distribution of modes (Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from videopro.report.rules import notes_for, rescored_before, variants
from videopro.report.runs import ReportRun, by_dataset, protocol_notes
from videopro.report.section import FigureSpec, MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, accuracy_cell, share
from videopro.traces import Cost, Trace
from videopro.traces.scoring import (
    PLANNER_TOKENS_NOTE,
    PLANNER_TOKENS_OUT,
    accuracy,
    is_answerable,
    planner_tokens_out,
    program_metrics,
    records_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def efficiency(runs: Sequence[ReportRun]) -> Section:
    """Accuracy, output length and runtime of each reasoning paradigm."""
    rows: list[tuple[Cell, ...]] = []
    chosen = [run for run in runs if not run.without]
    for data, group in by_dataset(chosen).items():
        for name, traces in _paradigms(group, runs):
            answerable = [trace for trace in traces if is_answerable(trace)]
            if not answerable:
                continue
            tokens = planner_tokens_out(answerable)
            cost = sum((trace.cost for trace in answerable), Cost()).share(len(answerable))
            rows.append(
                (
                    data.title,
                    name,
                    accuracy_cell(accuracy(records_of(traces))),
                    None if tokens is None else Number(tokens, 0),
                    Number(program_metrics(answerable)["output"]["characters"] or 0.0, 0),
                    Number(cost.seconds, 2),
                    Number(cost.calls, 1),
                    Number(cost.frames, 1),
                )
            )
    if not rows:
        raise MissingRuns("efficiency: none of the runs answered a question; finish one first")
    heads = (
        *(BENCHMARK, "method", "accuracy, %", PLANNER_TOKENS_OUT, "characters written"),
        *("runtime, s", "model calls", "frames decoded"),
    )
    notes = [
        *notes_for(chosen),
        "Means over the questions whose video could be read; intervals clustered by video.",
        PLANNER_TOKENS_NOTE,
        "Refinements stored only for other thresholds are not counted.",
    ]
    if any("before refinement" in str(row[1]) for row in rows):
        notes.append("Before refinement: the first answers of the run with refinement.")
    return Section(
        "efficiency", "Performance and efficiency", "Table 2",
        (Table("Performance and efficiency by reasoning paradigm", heads, tuple(rows), tuple(notes)),),
        notes=tuple(protocol_notes(chosen)), runs=tuple(chosen),
    )  # fmt: skip


def _paradigms(
    runs: Sequence[ReportRun], all_runs: Sequence[ReportRun]
) -> list[tuple[str, tuple[Trace, ...]]]:
    """Names and traces in the order of Table 2, under each rule for the final answer; a run with refinement
    also before it, unless the same planner has a run without."""
    paradigms = []
    # A run of the same planner without refinement has the same first answers, and its own times.
    alone = {run.planning for run in runs if run.method == "adaptive"}
    for run in sorted(runs, key=lambda run: run.method_rank):
        if run.method == "videopro" and run.planning not in alone:
            paradigms += [(variant.name, variant.traces) for variant in rescored_before(run, all_runs)]
        paradigms += [(variant.name, variant.own_traces) for variant in variants(run, all_runs)]
    return paradigms


def modes(runs: Sequence[ReportRun]) -> Section:
    """How often a planner chose native or program mode, and how often its answer was refined."""
    rows: list[tuple[Cell, ...]] = []
    drawn: list[tuple[str, dict[str, Any]]] = []
    planned = [run for run in runs if run.writes_programs and not run.without]
    several = len(by_dataset(planned)) > 1
    for data, group in by_dataset(planned).items():
        for run in group:
            shares = program_metrics(run.own_traces)["modes"]
            if shares["native"] is None:
                continue
            rows.append(
                (
                    data.title,
                    run.name,
                    len(run.traces),
                    *(share(shares[mode]) for mode in ("native", "program", "none", "refined", "fallback")),
                )
            )
            drawn.append((f"{run.name}\n{data.title}" if several else run.name, shares))
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
        runs=tuple(planned),
    )  # fmt: skip
