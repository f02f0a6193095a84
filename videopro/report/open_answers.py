"""Open questions: exact match and token F1 of each run, and differences to the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.report.runs import ReportRun, baseline, by_dataset, protocol_notes, question_notes
from videopro.report.section import MissingRuns, Section
from videopro.report.table import BENCHMARK, Cell, Table, estimate, share
from videopro.traces.scoring import open_difference, open_metrics, open_scores, shown_interval

_NOTES = (
    "Exact match and token F1 in percent, against the reference text, with SQuAD's normalization: case, "
    "punctuation and English articles do not count.",
    "Gain: F1 in percentage points more than the baseline, paired by question. Intervals are 95 %, clustered "
    "by video.",
)


def open_answers(runs: Sequence[ReportRun]) -> Section:
    """A row for each run with open questions. A judge's grades are in the table "metrics"."""
    rows: list[tuple[Cell, ...]] = []
    for data, group in by_dataset(runs).items():
        scored = {run.name: open_scores(run.own_traces) for run in group}
        start = baseline(group)
        for run in group:
            metrics = open_metrics(scored[run.name])
            if metrics is None:
                continue
            gap = None if run is start else open_difference(scored[run.name], scored[start.name])
            rows.append(
                (
                    data.title,
                    run.name,
                    metrics.n,
                    metrics.videos,
                    estimate(metrics.exact_match, shown_interval(metrics.exact_match_ci95, metrics.videos)),
                    estimate(metrics.f1, shown_interval(metrics.f1_ci95, metrics.videos)),
                    share(metrics.unanswered),
                    None
                    if gap is None
                    else estimate(gap.f1, shown_interval(gap.f1_ci95, gap.videos), signed=True),
                )
            )
    if not rows:
        raise MissingRuns(
            "open: no run has an open question with a reference; accuracy is in the table 'main'"
        )
    heads = (BENCHMARK, "run", "questions", "videos", "exact match", "token F1", "unanswered, %", "gain, F1")
    return Section(
        "open", "Open questions", "",
        (Table("Open questions", heads, tuple(rows), _NOTES),),
        notes=(*protocol_notes(runs), *question_notes(runs)),
    )  # fmt: skip
