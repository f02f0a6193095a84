"""Ablations: groups of modules (Table 3), training strategies and refinement (Table 4)."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.modules.calls import FAMILIES, REMOVABLE
from videopro.report.rules import natives_for
from videopro.report.runs import ReportRun, by_dataset, protocol_notes, question_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Table, accuracy_cell, difference_cell
from videopro.traces import NATIVE, RESCORINGS, rescore_all, rescore_before_refinement
from videopro.traces.scoring import QuestionScore, accuracy, paired_difference, records_of


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
            "modules: no run was made with --without; make some with `videopro infer --method "
            f"adaptive --without {' | '.join(REMOVABLE)}`"
        )
    rows: list[tuple[Cell, ...]] = []
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
                    f"modules: {group[0].path} is without {', '.join(group[0].without)}, but no run on "
                    f"{data.title} has the same planner and all modules; give that run too"
                )
            # Preferably a run without refinement; first answers are the same with it.
            complete = next((run for run in full if run.method == "adaptive"), full[0])
            who = f", {complete.model} {complete.planner}" if several else ""
            reference = first_answers(complete)
            rows.append((data.title, f"all modules{who}", accuracy_cell(accuracy(reference)), None, None))
            for run in sorted((run for run in group if run.planning == planning), key=_rank):
                records = first_answers(run)
                gap = paired_difference(records, reference)
                name = " and ".join(FAMILIES[group].lower() for group in run.without)
                rows.append(
                    (data.title, f"without {name}{who}", accuracy_cell(accuracy(records)),
                     difference_cell(gap), gap.n)
                )  # fmt: skip
    heads = (BENCHMARK, "modules", "accuracy, %", "difference", "questions of both")
    notes = (
        "First answers, before any refinement. Difference: percentage points against all modules, paired by "
        "question; intervals clustered by video.",
        "Modules of a group that is left out raise an error when a program calls them, and are missing from "
        "the reference that the planner reads.",
    )
    return Section(
        "modules", "Module ablation", "Table 3",
        (Table("Accuracy without each group of modules", heads, tuple(rows), notes),),
        notes=(*protocol_notes(adaptive), *question_notes(adaptive)), runs=tuple(adaptive),
    )  # fmt: skip


def _rank(run: ReportRun) -> tuple[int, ...]:
    return tuple(REMOVABLE.index(group) for group in run.without if group in REMOVABLE)


def training(runs: Sequence[ReportRun]) -> Section:
    """Accuracy before and after refinement: one row per model and training strategy."""
    chosen = [run for run in runs if run.method == "videopro" and not run.without]
    if not chosen:
        raise MissingRuns(
            "training: no run refines; give runs of method videopro, one per planner, as NAME=FOLDER"
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
                    f"{dataset.title}; give them as NAME=FOLDER"
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
        notes=(*protocol_notes(chosen), *question_notes(chosen)), runs=tuple(chosen),
    )  # fmt: skip


_STEPS = (
    *("reasoning, %", "+ fallback, %", "+ refinement, %", "+ fallback, %", "last answer, %", "+ fallback, %"),
    *("gain", "gain, with fallback"),
)


def _steps(run: ReportRun, runs: Sequence[ReportRun]) -> list[Cell]:
    """A run's cells for the columns of _STEPS."""
    natives = natives_for(run, runs)
    rescored = {name: rescore_all(run.traces, reading, natives) for name, reading in RESCORINGS.items()}
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
