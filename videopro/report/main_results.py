"""The main results (Table 1), an overview of the runs, and each benchmark's own metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from videopro.benchmarks import Metric
from videopro.report.figures import draw_durations
from videopro.report.runs import (
    OWN_RULE,
    DatasetKey,
    ReportRun,
    baseline,
    by_dataset,
    notes_for,
    sampling_of,
    variants_of,
    versions_note,
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
    estimate,
    share,
)
from videopro.traces.scoring import (
    Accuracy,
    QuestionScore,
    WeightedPart,
    accuracy,
    failed_questions,
    grouped,
    open_difference,
    open_metrics,
    open_scores,
    shown_interval,
    weighted_accuracy,
    weighted_difference,
)


def about_runs(runs: Sequence[ReportRun]) -> Section:
    """Overview of the runs: each with its protocol, settings and accuracy."""
    rows: list[dict[str, Cell]] = []
    for data, group in by_dataset(runs).items():
        for run in group:
            summary, method = run.summary, run.identity["method"]
            rows.append(
                {
                    "run": run.name,
                    "benchmark": data.title,
                    "protocol": f"{run.protocol.name} {data.protocol_hash}".strip(),
                    "model": run.model,
                    "planner": run.planner,
                    "sampling": sampling_of(method),
                    "final answer": run.rule.title if run.writes_programs else "",
                    # An agent has its own budget; the others take the model's.
                    "frames": method.get("frames") or run.identity.get("model", {}).get("frames"),
                    "questions": summary["n"],
                    "videos": summary["videos"],
                    "accuracy, %": run.lacks or accuracy_cell(accuracy(run.records)),
                    "official, %": None if run.lacks else share(summary["official_accuracy"]),
                    "unparsed, %": share(summary["unparsed"]),
                    "coverage, %": share(summary["coverage"]),
                    "errors": sum(summary["errors"].values()),
                    "folder": str(run.path),
                }
            )
    notes = (
        "Accuracy by the robust reader, official by the benchmark's own; both over the run's own questions.",
        "Coverage: videos that could be read. Questions about others are left out.",
    )
    return Section(
        "runs",
        "The runs",
        "",
        (Table.of("The runs of this report", rows, *notes),),
        notes=(
            *filter(None, [versions_note(runs)]),
            *failed_questions({run.name: run.traces for run in runs}),
        ),
    )


def own_metrics(runs: Sequence[ReportRun]) -> Section:
    """Each benchmark's own metrics (MLVU's M-Avg, CG-Bench's mIoU, grades)."""
    rows: list[dict[str, Cell]] = []
    for data, group in by_dataset(runs).items():
        for run in group:
            for name, value in run.summary["metrics"].items():
                if value["robust"] is None and value["official"] is None:
                    continue
                # Grades are no shares.
                cell = share if value["valid"] is None else partial(Number, decimals=2)
                who = {BENCHMARK: data.title, "run": run.name, "metric": name, "questions": value["n"]}
                rows.append(who | {reader: cell(value[reader]) for reader in ("robust", "official")})
    if not rows:
        raise MissingRuns(
            "metrics: none of the runs' protocols has metrics of its own; accuracy is in the table 'main'"
        )
    notes = ("Shares in percent, grades (0 to 3) as means; a failed grade counts 0.",)
    return Section(
        "metrics", "The benchmarks' own metrics", "",
        (Table.of("The benchmarks' own metrics", rows, *notes),),
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
    chosen = [run for run in variants_of(full_runs) if run.records]
    data = by_dataset(chosen)
    if not data:
        raise MissingRuns("main: no run has a scored question; finish or grade the runs first")
    # A model's direct answers before its methods.
    ordered = sorted(chosen, key=lambda run: (run.model, run.method != "native"))
    names = list(dict.fromkeys(run.name for run in ordered))
    of = {(run.name, run.dataset): run for run in chosen}
    several = len(data) > 1
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        named_runs = {dataset: of[name, dataset] for dataset in data if (name, dataset) in of}
        parts = [headline(named_runs[dataset]) if dataset in named_runs else None for dataset in data]
        if several:
            # A mean over fewer benchmarks than those of the other rows would be one over other questions.
            parts.append(_mean(list(named_runs.values())) if len(named_runs) == len(data) else None)
        cells = (None if part is None else accuracy_cell(weighted_accuracy(part)) for part in parts)
        rows.append((name, *cells, _gain(named_runs, chosen)))
    # Two protocols of one benchmark may have the same title: these rows cannot be by heading.
    titles = (_head(group[0]) for group in data.values())
    heads = ("", *titles, *(["mean"] if several else []), "gain over native")
    notes = [
        *notes_for(full_runs),
        "Accuracy in percent by the robust reader, with 95 % intervals clustered by video.",
        "Gain: in percentage points over the direct answers of the same model, paired by question"
        + (", mean over the benchmarks of both runs." if several else "."),
    ]
    return Section(
        "main",
        "Main results",
        "Table 1",
        (Table("Main results", heads, tuple(rows), tuple(notes)),),
        runs=tuple(full_runs),
    )


def _macro(run: ReportRun) -> Metric | None:
    """The benchmark's mean over groups, shown in the main table; None: its accuracy is shown."""
    return next((metric for metric in run.protocol.metrics if metric.kind == "macro"), None)


def _head(run: ReportRun) -> str:
    macro = _macro(run)
    return run.dataset.title if macro is None else f"{run.dataset.title}, {macro.name}"


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


def _gain(named_runs: dict[DatasetKey, ReportRun], runs: Sequence[ReportRun]) -> Cell:
    """The gain over the native run of the same model, on the benchmarks that both have."""
    # Of another budget, a part of the gain would be that of more frames.
    natives = {(run.dataset, run.model, run.frames): run for run in reversed(runs) if run.method == "native"}
    pairs = [
        (run, natives[dataset, run.model, run.frames])
        for dataset, run in named_runs.items()
        if run.method != "native" and (dataset, run.model, run.frames) in natives
    ]
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


_NOTES = (
    "Exact match and token F1 in percent, compared with the reference text under SQuAD's normalization: "
    "case, punctuation and English articles are ignored.",
    "Gain: F1 in percentage points above the baseline, paired by question. Intervals are 95 %, clustered by "
    "video.",
)


def open_answers(runs: Sequence[ReportRun]) -> Section:
    """A row for each run with open questions. A judge's grades are in the table "metrics"."""
    rows: list[dict[str, Cell]] = []
    for data, group in by_dataset(runs).items():
        scored = {run.name: open_scores(run.own_traces) for run in group}
        start = baseline(group)
        for run in group:
            metrics = open_metrics(scored[run.name])
            if metrics is None:
                continue
            gap = None if run is start else open_difference(scored[run.name], scored[start.name])
            rows.append(
                {
                    BENCHMARK: data.title,
                    "run": run.name,
                    "questions": metrics.n,
                    "videos": metrics.videos,
                    "exact match": estimate(
                        metrics.exact_match, shown_interval(metrics.exact_match_ci95, metrics.videos)
                    ),
                    "token F1": estimate(metrics.f1, shown_interval(metrics.f1_ci95, metrics.videos)),
                    "unanswered, %": share(metrics.unanswered),
                    "gain, F1": None
                    if gap is None
                    else estimate(gap.f1, shown_interval(gap.f1_ci95, gap.videos), signed=True),
                }
            )
    if not rows:
        raise MissingRuns(
            "open: no run has an open question with a reference; accuracy is in the table 'main'"
        )
    return Section(
        "open", "Open questions", "",
        (Table.of("Open questions", rows, *_NOTES),),
    )  # fmt: skip


BINS = ("< 2 min", "2-15 min", "> 15 min")


def bin_of(seconds: float) -> str:
    """The paper's bin of a duration; 2 and 15 minutes are in the middle bin."""
    return BINS[0] if seconds < 120 else BINS[1] if seconds <= 900 else BINS[2]


def binned(run: ReportRun) -> dict[str, list[QuestionScore]]:
    """The scores by bin. Questions about videos of unknown duration are left out."""
    length = {trace.question_id: trace.video.duration for trace in run.traces}
    scores: dict[str, list[QuestionScore]] = {name: [] for name in BINS}
    for record in run.records:
        if length[record.question_id] > 0:
            scores[bin_of(length[record.question_id])].append(record)
    return scores


def durations(runs: Sequence[ReportRun]) -> Section:
    """Accuracy in each bin for each run with all modules; one panel per benchmark."""
    chosen = [run for run in runs if not run.without and run.records]
    rows: list[dict[str, Cell]] = []
    panels: list[tuple[str, list[tuple[str, str, list[Accuracy]]]]] = []
    left_out = 0
    for data, group in by_dataset(chosen).items():
        bars = []
        for run in group:
            parts = [accuracy(records) for records in binned(run).values()]
            if not any(part.n for part in parts):
                continue
            # Questions about videos of unknown length are in no bin.
            left_out += len(run.records) - sum(part.n for part in parts)
            row: dict[str, Cell] = {BENCHMARK: data.title, "run": run.name}
            for name, part in zip(BINS, parts, strict=True):
                row |= {f"n, {name}": part.n, f"{name}, %": accuracy_cell(part)}
            rows.append(row)
            bars.append((run.name, run.method, parts))
        if bars:
            panels.append((data.title, bars))
    if not rows:
        raise MissingRuns(
            "durations: no run has a scored question about a video of known duration; finish one first"
        )
    notes = [
        "Lengths of the files; a video of just 2 or 15 minutes is in the middle bin.",
        OWN_RULE,
    ]
    if left_out:
        notes.append(f"{left_out} answers to questions about videos of unknown duration are left out.")
    return Section(
        "durations", "Accuracy by video duration", "Figure 5",
        (Table.of("Accuracy across video durations", rows, *notes),),
        FigureSpec("Accuracy by the length of the video with 95 % intervals.",
                   partial(draw_durations, panels, BINS)),
        runs=tuple(chosen),
    )  # fmt: skip
