"""The main results (Table 1), an overview of the runs, and each benchmark's own metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from videopro.benchmarks import Metric
from videopro.report.rules import notes_for, variants_of
from videopro.report.runs import (
    DatasetKey,
    ReportRun,
    by_dataset,
    protocol_notes,
    question_notes,
    sampling_of,
    versions_note,
)
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Number, Table, accuracy_cell, difference_cell, share
from videopro.traces.scoring import (
    QuestionScore,
    WeightedPart,
    accuracy,
    grouped,
    weighted_accuracy,
    weighted_difference,
)


def about_runs(runs: Sequence[ReportRun]) -> Section:
    """Overview of the runs: each with its protocol, settings and accuracy."""
    rows: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        for run in group:
            summary = run.summary
            rows.append(
                (
                    run.name,
                    data.title,
                    f"{run.protocol.name} {data.protocol_hash}".strip(),
                    run.model,
                    run.planner,
                    sampling_of(run.identity["method"]),
                    run.rule.title if run.writes_programs else "",
                    run.identity["method"].get("frames") or run.identity.get("model", {}).get("frames"),
                    summary["n"],
                    summary["videos"],
                    run.lacks or accuracy_cell(accuracy(run.records)),
                    None if run.lacks else share(summary["official_accuracy"]),
                    share(summary["unparsed"]),
                    share(summary["coverage"]),
                    sum(summary["errors"].values()),
                    str(run.path),
                )
            )
    heads = (
        *(
            "run",
            "benchmark",
            "protocol",
            "model",
            "planner",
            "sampling",
            "final answer",
            "frames",
            "questions",
            "videos",
        ),
        *("accuracy, %", "official, %", "unparsed, %", "coverage, %", "errors", "folder"),
    )
    notes = (
        "Accuracy by the robust reader, official by the benchmark's own; both over the run's own questions.",
        "Coverage: videos that could be read. Questions about others are left out.",
    )
    return Section(
        "runs",
        "The runs",
        "",
        (Table("The runs of this report", heads, tuple(rows), notes),),
        notes=(*protocol_notes(runs), *question_notes(runs), *filter(None, [versions_note(runs)])),
    )


def own_metrics(runs: Sequence[ReportRun]) -> Section:
    """Each benchmark's own metrics (MLVU's M-Avg, CG-Bench's mIoU, grades)."""
    rows: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        for run in group:
            for name, value in run.summary["metrics"].items():
                if value["robust"] is None and value["official"] is None:
                    continue
                # Grades, which are no shares.
                if value["valid"] is not None:
                    cells = [Number(value["robust"], 2), Number(value["official"], 2)]
                else:
                    cells = [share(value["robust"]), share(value["official"])]  # type: ignore[list-item]
                rows.append((data.title, run.name, name, value["n"], *cells))
    if not rows:
        raise MissingRuns(
            "metrics: none of the runs' protocols has metrics of its own; accuracy is in the table 'main'"
        )
    heads = (BENCHMARK, "run", "metric", "questions", "robust", "official")
    notes = ("Shares in percent, grades (0 to 3) as means; a grade that failed counts 0.",)
    return Section(
        "metrics", "The benchmarks' own metrics", "",
        (Table("The benchmarks' own metrics", heads, tuple(rows), notes),),
    )  # fmt: skip


def headline(run: ReportRun) -> list[WeightedPart]:
    """The parts that a benchmark's number in Table 1 averages: its tasks (MLVU), otherwise all questions."""
    macro = _macro(run)
    if macro is None:
        return [(1.0, run.records)] if run.records else []
    tasks = grouped(run.records).get(macro.over, {})
    return [(1 / len(tasks), records) for records in tasks.values()]


def main_results(runs: Sequence[ReportRun]) -> Section:
    """Accuracy per benchmark and their mean, with the gain over the direct answers of the same model."""
    full_runs = [run for run in runs if not run.without]
    chosen = variants_of(full_runs)
    data = by_dataset([run for run in chosen if run.records])
    if not data:
        raise MissingRuns("main: no run has a question with a known answer; finish or grade the runs first")
    names = list(dict.fromkeys(run.name for run in sorted(chosen, key=_order)))
    of = {(run.name, run.dataset): run for run in chosen if run.records}
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        named_runs = {dataset: of[name, dataset] for dataset in data if (name, dataset) in of}
        if not named_runs:
            continue
        cells = [
            accuracy_cell(weighted_accuracy(headline(named_runs[dataset]))) if dataset in named_runs else None
            for dataset in data
        ]
        mean = None
        # A mean over fewer benchmarks than those of the other rows would be one over other questions.
        if len(data) > 1 and len(named_runs) == len(data):
            mean = accuracy_cell(weighted_accuracy(_mean([named_runs[dataset] for dataset in data])))
        rows.append((name, *cells, *([mean] if len(data) > 1 else []), _gain(named_runs, data, of)))
    heads = (
        "",
        *(_head(of, dataset) for dataset in data),
        *(["mean"] if len(data) > 1 else []),
        "gain over native",
    )
    notes = [
        *notes_for(full_runs),
        "Accuracy in percent by the robust reader, with 95 % intervals clustered by video.",
        "Gain: in percentage points over the direct answers of the same model, paired by question"
        + (", mean over the benchmarks that both have." if len(data) > 1 else "."),
    ]
    return Section(
        "main",
        "Main results",
        "Table 1",
        (Table("Main results", heads, tuple(rows), tuple(notes)),),
        notes=(*protocol_notes(full_runs), *question_notes(full_runs)),
    )


def _order(run: ReportRun) -> tuple[str, int]:
    return run.model, 0 if run.method == "native" else 1


def _macro(run: ReportRun) -> Metric | None:
    """The benchmark's mean over groups, which stands for it in the main table; None: its accuracy does."""
    return next((metric for metric in run.protocol.metrics if metric.kind == "macro"), None)


def _head(of: dict[tuple[str, DatasetKey], ReportRun], data: DatasetKey) -> str:
    macro = _macro(next(run for (_, dataset), run in of.items() if dataset == data))
    return data.title if macro is None else f"{data.title}, {macro.name}"


def _mean(runs: Sequence[ReportRun]) -> list[WeightedPart]:
    """All benchmarks with equal weight. Videos and questions of different benchmarks stay distinct."""
    return [
        (weight / len(runs), [_qualified(run, record) for record in records])
        for run in runs
        for weight, records in headline(run)
    ]


def _qualified(run: ReportRun, record: QuestionScore) -> QuestionScore:
    """The record with ids that are unique across benchmarks."""
    data = f"{run.dataset.benchmark}/{run.dataset.split}/"
    return replace(record, question_id=data + record.question_id, video=data + record.video)


def _gain(
    named_runs: dict[DatasetKey, ReportRun],
    data: Sequence[DatasetKey] | dict[DatasetKey, list[ReportRun]],
    of: dict[tuple[str, DatasetKey], ReportRun],
) -> Cell:
    """The gain over the native run of the same model, on the benchmarks that both have."""
    pairs = []
    for dataset in data:
        run = named_runs.get(dataset)
        if run is None or run.method == "native":
            continue
        # Of another budget, a part of the gain would be that of more frames.
        native = next(
            (
                other
                for (_, where), other in of.items()
                if where == dataset
                and other.method == "native"
                and (other.model, other.frames) == (run.model, run.frames)
            ),
            None,
        )
        if native is not None:
            pairs.append((run, native))
    if not pairs:
        return None
    parts = []
    for run, native in pairs:
        native_records = [_qualified(native, record) for record in native.records]
        parts += [
            (weight / len(pairs), [_qualified(run, record) for record in records], native_records)
            for weight, records in headline(run)
        ]
    return difference_cell(weighted_difference(parts))
