"""What each part is worth: groups of modules (Table 3), training strategies and refinement (Table 4).

Knows runs and tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from videopro.modules.calls.registry import FAMILIES, REMOVABLE
from videopro.report.rules import natives_for
from videopro.report.runs import ReportRun, by_dataset, protocol_notes, question_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Table, accuracy_cell, difference_cell
from videopro.scoring import QuestionScore, accuracy, paired_difference, records_of
from videopro.traces import NATIVE, RESCORINGS, rescore_all, rescore_before_refinement


def first_answers(run: ReportRun) -> list[QuestionScore]:
    """The verdicts on the answers before any refinement."""
    return records_of([rescore_before_refinement(trace) for trace in run.traces])


def modules(runs: Sequence[ReportRun]) -> Section:
    """Accuracy without each group of modules, beside the same planner with all of them."""
    # A program of several steps has no choice of modes: it is no part of this.
    adaptive = [run for run in runs if run.method in ("adaptive", "videopro")]
    cut = [run for run in adaptive if run.without]
    if not cut:
        raise MissingRuns(
            "modules: no run was made with --without; make some with `python -m videopro.infer --method "
            f"adaptive --without {' | '.join(REMOVABLE)}`"
        )
    rows: list[tuple[Cell, ...]] = []
    several = len({run.planning for run in cut}) > 1
    for data, own in by_dataset(cut).items():
        for planning in dict.fromkeys(run.planning for run in own):
            full = [
                run
                for run in adaptive
                if not run.without and run.planning == planning and run.dataset == data
            ]
            if not full:
                raise MissingRuns(
                    f"modules: {own[0].path} is without {', '.join(own[0].without)}, and no run on "
                    f"{data.title} has the same planner and all modules; give that one too"
                )
            # One without refinement where there is one; its first answers are those of the other.
            whole = next((run for run in full if run.method == "adaptive"), full[0])
            who = f", {whole.model} {whole.planner}" if several else ""
            reference = first_answers(whole)
            rows.append((data.title, f"all modules{who}", accuracy_cell(accuracy(reference)), None, None))
            for run in sorted((one for one in own if one.planning == planning), key=_place):
                records = first_answers(run)
                gap = paired_difference(records, reference)
                name = " and ".join(FAMILIES[group].lower() for group in run.without)
                rows.append(
                    (data.title, f"without {name}{who}", accuracy_cell(accuracy(records)),
                     difference_cell(gap), gap.n)
                )  # fmt: skip
    heads = (BENCHMARK, "modules", "accuracy, %", "difference", "questions of both")
    notes = (
        "First answers, before any refinement. Difference: percentage points to all modules, question by "
        "question; intervals clustered by video.",
        "A group that is left out raises when a program calls it, and is not in the reference that the "
        "planner reads.",
    )
    return Section(
        "modules", "Module ablation", "Table 3",
        (Table("Accuracy without each group of modules", heads, tuple(rows), notes),),
        notes=(*protocol_notes(adaptive), *question_notes(adaptive)),
    )  # fmt: skip


def _place(run: ReportRun) -> tuple[int, ...]:
    return tuple(REMOVABLE.index(group) for group in run.without if group in REMOVABLE)


def training(runs: Sequence[ReportRun]) -> Section:
    """Accuracy before and after refinement, for each planner: one row a model and training strategy."""
    chosen = [run for run in runs if run.method == "videopro" and not run.without]
    if not chosen:
        raise MissingRuns(
            "training: no run refines; give runs of method videopro, one for each planner, as NAME=FOLDER"
        )
    data = by_dataset(chosen)
    strategies: dict[tuple[str, str], list[ReportRun]] = {}
    for run in chosen:
        strategies.setdefault((run.model, run.name if run.is_named else run.planner), []).append(run)
    rows: list[tuple[Cell, ...]] = []
    for (model, strategy), own in strategies.items():
        cells: list[Cell] = []
        for one in data:
            here = [run for run in own if run.dataset == one]
            if len(here) > 1:
                raise MissingRuns(
                    f"training: {here[0].path} and {here[1].path} are both {model}, {strategy}, on "
                    f"{one.title}; give them as NAME=FOLDER"
                )
            cells += _steps(here[0], runs) if here else [None] * len(_STEPS)
        rows.append((model, strategy, *cells))
    several = len(data) > 1
    heads = [f"{one.title}: {part}" if several else part for one in data for part in _STEPS]
    notes = (
        "Reasoning: first answers; + refinement: the last program's answer counts, failed or not (the "
        "paper's rule); last answer: the latest that there is. Fallback: the model's direct answer where "
        "that is none, from the runs themselves or a run of method native; empty where there is neither.",
        "Gain: of refinement, with the fallback on both sides or on none; in percentage points, question by "
        "question. Intervals clustered by video.",
        "Several seeds of one training: python -m videopro.seeds.",
    )
    return Section(
        "training", "Training strategies and refinement", "Table 4",
        (Table("Training strategies and refinement", ("model", "strategy", *heads), tuple(rows), notes),),
        notes=(*protocol_notes(chosen), *question_notes(chosen)),
    )  # fmt: skip


_STEPS = (
    *("reasoning, %", "+ fallback, %", "+ refinement, %", "+ fallback, %", "last answer, %", "+ fallback, %"),
    *("gain", "gain, with fallback"),
)


def _steps(run: ReportRun, runs: Sequence[ReportRun]) -> list[Cell]:
    """A run's cells under _STEPS."""
    natives = natives_for(run, runs)
    found = {name: rescore_all(run.traces, reading, natives) for name, reading in RESCORINGS.items()}
    right = {name: None if traces is None else records_of(traces) for name, traces in found.items()}
    cells: list[Cell] = [None if one is None else accuracy_cell(accuracy(one)) for one in right.values()]
    for fallback in ("", f" {NATIVE}"):
        before, after = right[f"first{fallback}"], right[f"last{fallback}"]
        if before is None or after is None:
            cells.append(None)
        else:
            cells.append(difference_cell(paired_difference(after, before)))
    return cells
