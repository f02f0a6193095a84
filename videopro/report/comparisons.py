"""Ablations: groups of modules (Table 3), training strategies and refinement (Table 4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

from videopro.modules.calls import FAMILIES, REMOVABLE
from videopro.report.figures import draw_modes
from videopro.report.runs import (
    OWN_RULE,
    ReportRun,
    baseline,
    by_dataset,
    natives_for,
    notes_for,
    rescored_before,
    variants,
)
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
    share,
)
from videopro.traces import NATIVE, RESCORINGS, Cost, Trace, rescore_all, rescore_before_refinement
from videopro.traces.scoring import (
    PLANNER_TOKENS_NOTE,
    PLANNER_TOKENS_OUT,
    QuestionScore,
    accuracy,
    is_answerable,
    mode_shares,
    paired_difference,
    planner_tokens_out,
    program_metrics,
    records_of,
)


def first_answers(run: ReportRun) -> list[QuestionScore]:
    """The scores of the answers before any refinement."""
    return records_of([rescore_before_refinement(trace) for trace in run.traces])


def modules(runs: Sequence[ReportRun]) -> Section:
    """Accuracy without each group of modules, compared with the same planner and all modules."""
    # Method program has no choice of modes, so it is left out.
    adaptive = [run for run in runs if run.method in ("adaptive", "videopro")]
    cut = [run for run in adaptive if run.without]
    if not cut:
        raise MissingRuns(
            "modules: no run uses --without; make runs with `videopro infer --method "
            f"adaptive --without {' | '.join(REMOVABLE)}`"
        )
    rows: list[dict[str, Cell]] = []
    several = len({run.planning for run in cut}) > 1
    for data, group in by_dataset(cut).items():
        for planning in dict.fromkeys(run.planning for run in group):
            full = [
                run
                for run in adaptive
                if not run.without and run.planning == planning and run.dataset == data
            ]
            if not full:
                raise MissingRuns(
                    f"modules: {group[0].path} runs without {', '.join(group[0].without)}, but no run on "
                    f"{data.title} has the same planner and all modules; pass that run too"
                )
            # Preferably a run without refinement; first answers are the same with it.
            complete = next((run for run in full if run.method == "adaptive"), full[0])
            who = f", {complete.model} {complete.planner}" if several else ""
            reference = first_answers(complete)
            for run in [complete, *sorted((run for run in group if run.planning == planning), key=_rank)]:
                records = first_answers(run)
                gap = None if run is complete else paired_difference(records, reference)
                left_out = " and ".join(FAMILIES[family].lower() for family in run.without)
                rows.append(
                    {
                        BENCHMARK: data.title,
                        "modules": f"without {left_out}{who}" if left_out else f"all modules{who}",
                        "accuracy, %": accuracy_cell(accuracy(records)),
                        "difference": None if gap is None else difference_cell(gap),
                        "questions of both": None if gap is None else gap.n,
                    }
                )
    notes = (
        "First answers, before any refinement. Difference: percentage points against all modules, paired by "
        "question; intervals clustered by video.",
        "Modules of a group that is left out raise an error when a program calls them, and are missing from "
        "the reference that the planner reads.",
    )
    return Section(
        "modules", "Module ablation", "Table 3",
        (Table.of("Accuracy without each group of modules", rows, *notes),),
        runs=tuple(adaptive),
    )  # fmt: skip


def _rank(run: ReportRun) -> tuple[int, ...]:
    return tuple(REMOVABLE.index(group) for group in run.without if group in REMOVABLE)


def training(runs: Sequence[ReportRun]) -> Section:
    """Accuracy before and after refinement: one row per model and training strategy."""
    chosen = [run for run in runs if run.method == "videopro" and not run.without]
    if not chosen:
        raise MissingRuns(
            "training: no run refines; pass runs of method videopro, one per planner, as NAME=FOLDER"
        )
    data = by_dataset(chosen)
    strategies: dict[tuple[str, str], list[ReportRun]] = {}
    for run in chosen:
        strategies.setdefault((run.model, run.name if run.is_named else run.planner), []).append(run)
    rows: list[tuple[Cell, ...]] = []
    for (model, strategy), strategy_runs in strategies.items():
        cells: list[Cell] = []
        for dataset in data:
            here = [run for run in strategy_runs if run.dataset == dataset]
            if len(here) > 1:
                raise MissingRuns(
                    f"training: {here[0].path} and {here[1].path} are both {model}, {strategy}, on "
                    f"{dataset.title}; name them with NAME=FOLDER"
                )
            cells += _steps(here[0], runs) if here else [None] * len(_STEPS)
        rows.append((model, strategy, *cells))
    several = len(data) > 1
    heads = [f"{dataset.title}: {part}" if several else part for dataset in data for part in _STEPS]
    notes = (
        "Reasoning: first answers. + refinement: the answer of the last program counts, even if that program "
        "failed (the paper's rule). Last answer: the latest program that answered counts. Fallback: if no "
        "answer is left, the model's direct answer counts, from the runs themselves or from a run of method "
        "native; empty if there is neither.",
        "Gain: of refinement, with the fallback on both sides or on neither; in percentage points, paired by "
        "question. Intervals are clustered by video.",
        "For several seeds of one training: `videopro seeds`.",
    )
    return Section(
        "training", "Training strategies and refinement", "Table 4",
        (Table("Training strategies and refinement", ("model", "strategy", *heads), tuple(rows), notes),),
        runs=tuple(chosen),
    )  # fmt: skip


_STEPS = (
    *("reasoning, %", "+ fallback, %", "+ refinement, %", "+ fallback, %", "last answer, %", "+ fallback, %"),
    *("gain", "gain, with fallback"),
)


def _steps(run: ReportRun, runs: Sequence[ReportRun]) -> list[Cell]:
    """A run's cells for the columns of _STEPS."""
    natives = natives_for(run, runs)
    rescored = {name: rescore_all(run.traces, reading, natives) for name, reading in RESCORINGS.items()}
    # None where a fallback needs a direct answer that nobody recorded; then its gain is unknown, too.
    right = {name: None if traces is None else records_of(traces) for name, traces in rescored.items()}
    cells: list[Cell] = [
        None if records is None else accuracy_cell(accuracy(records)) for records in right.values()
    ]
    for fallback in ("", f" {NATIVE}"):
        before, after = right[f"first{fallback}"], right[f"last{fallback}"]
        if before is None or after is None:
            cells.append(None)
        else:
            cells.append(difference_cell(paired_difference(after, before)))
    return cells


def changed_sides(first: ReportRun, second: ReportRun) -> tuple[list[str], list[str]]:
    """Ids of the questions that only the second run answered correctly, and that only the first run did."""
    before = {record.question_id: record.correct for record in first.records}
    changed = [each for each in second.records if before.get(each.question_id) == (not each.correct)]
    gained = [record.question_id for record in changed if record.correct]
    return gained, [record.question_id for record in changed if not record.correct]


def pairs(runs: Sequence[ReportRun]) -> Section:
    """The difference of every pair, starting with the baseline, and the questions behind it."""
    rows: list[dict[str, Cell]] = []
    changed: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        scored = [run for run in group if run.records]
        if not scored:
            continue
        start = baseline(scored)
        ordered = [start, *(run for run in scored if run is not start)]
        for first, second in combinations(ordered, 2):
            gap = paired_difference(second.records, first.records)
            gained, lost = changed_sides(first, second)
            rows.append(
                {
                    BENCHMARK: data.title,
                    "run": second.name,
                    "compared with": first.name,
                    "questions of both": gap.n,
                    "difference": difference_cell(gap),
                    "gained": len(gained),
                    "lost": len(lost),
                }
            )
            changed += [
                (data.title, second.name, first.name, change, *_question(first, second, question_id))
                for change, ids in (("gained", gained), ("lost", lost))
                for question_id in ids
            ]
    if not rows:
        raise MissingRuns("pairs: no two runs share benchmark, split and protocol; pass two that do")
    notes = (
        "Difference in percentage points, paired by question, with a 95 % interval clustered by video. "
        "Gained: questions that only the first run got right; lost: only the other.",
        OWN_RULE,
    )
    looked_up = (
        *(BENCHMARK, "run", "compared with", "change", "question id", "question", "correct", "its answer"),
        "the other's answer",
    )
    return Section(
        "pairs", "Pairs of runs", "",
        (
            Table.of("Pairs of runs", rows, *notes),
            Table("Questions that changed sides", looked_up, tuple(changed), suffix="changed", folded=True),
        ),
    )  # fmt: skip


def _question(first: ReportRun, second: ReportRun, question_id: str) -> tuple[Cell, ...]:
    traces = [trace for run in (second, first) for trace in run.traces if trace.question_id == question_id]
    answers = [(trace.final and trace.final.letter) or "none" for trace in traces]
    return (question_id, traces[0].question, traces[0].gold, *answers)


def efficiency(runs: Sequence[ReportRun]) -> Section:
    """Accuracy, output length and runtime of each reasoning paradigm."""
    rows: list[dict[str, Cell]] = []
    chosen = [run for run in runs if not run.without]
    for data, group in by_dataset(chosen).items():
        for name, traces in _paradigms(group, runs):
            answerable = [trace for trace in traces if is_answerable(trace)]
            if not answerable:
                continue
            tokens = planner_tokens_out(answerable)
            cost = sum((trace.cost for trace in answerable), Cost()).share(len(answerable))
            rows.append(
                {
                    BENCHMARK: data.title,
                    "method": name,
                    "accuracy, %": accuracy_cell(accuracy(records_of(traces))),
                    PLANNER_TOKENS_OUT: None if tokens is None else Number(tokens, 0),
                    "characters written": Number(
                        program_metrics(answerable)["output"]["characters"] or 0.0, 0
                    ),
                    "runtime, s": Number(cost.seconds, 2),
                    "model calls": Number(cost.calls),
                    "frames decoded": Number(cost.frames),
                }
            )
    if not rows:
        raise MissingRuns("efficiency: no run answered a question; finish one first")
    notes = [
        *notes_for(chosen),
        "Means over the questions whose video could be read; intervals clustered by video.",
        PLANNER_TOKENS_NOTE,
        "Refinements stored only for other thresholds are not counted.",
    ]
    if any("before refinement" in str(row["method"]) for row in rows):
        notes.append("Before refinement: the first answers of the run with refinement.")
    return Section(
        "efficiency", "Performance and efficiency", "Table 2",
        (Table.of("Performance and efficiency by reasoning paradigm", rows, *notes),),
        runs=tuple(chosen),
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


_MODES = {
    "native": "native",
    "program": "program",
    "none": "no program",
    "refined": "refined",
    "fallback": "direct answer after all",
}


def modes(runs: Sequence[ReportRun]) -> Section:
    """How often a planner chose native or program mode, and how often its answer was refined."""
    rows: list[dict[str, Cell]] = []
    drawn: list[tuple[str, dict[str, Any]]] = []
    planned = [run for run in runs if run.writes_programs and not run.without]
    several = len(by_dataset(planned)) > 1
    for data, group in by_dataset(planned).items():
        for run in group:
            shares = mode_shares(run.own_traces)
            if shares["native"] is None:
                continue
            rows.append(
                {
                    BENCHMARK: data.title,
                    "run": run.name,
                    "questions": len(run.traces),
                    **{f"{head}, %": share(shares[mode]) for mode, head in _MODES.items()},
                }
            )
            drawn.append((f"{run.name}\n{data.title}" if several else run.name, shares))
    if not rows:
        raise MissingRuns("modes: no run wrote programs; pass one of method program, adaptive or videopro")
    notes = (
        "Native, program and no program: what the first reply was; they make up all questions.",
        "Refined: a refinement that the run's own threshold called for.",
    )
    return Section(
        "modes", "Execution modes", "Table 5",
        (Table.of("Distribution of execution modes and refinements", rows, *notes),),
        FigureSpec("Execution modes of the first program, and the share of questions that were refined.",
                   partial(draw_modes, drawn)),
        runs=tuple(planned),
    )  # fmt: skip
