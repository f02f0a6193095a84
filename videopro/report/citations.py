"""The evidence that answers cite, and whether it is the part of the video that holds the answer."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.benchmarks import citations
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.table import BENCHMARK, Cell, Estimate, MissingRuns, Section, Table, estimate
from videopro.traces.scoring import mean_interval, shown_interval


def cited(runs: Sequence[ReportRun]) -> Section:
    """A row for each run of a benchmark that marks where its answers are."""
    rows: list[dict[str, Cell]] = []
    for data, group in by_dataset(runs).items():
        for run in group:
            found = citations(run.own_traces)
            marked = [each for each in found if each.tiou is not None]
            if not marked:
                continue
            rows.append(
                {
                    BENCHMARK: data.title,
                    "run": run.name,
                    "answers": len(found),
                    "cite, %": _mean([(each.video, each.cites) for each in found]),
                    "with a clue": len(marked),
                    "clue found, %": _mean([(each.video, each.recall or 0.0) for each in marked]),
                    "tIoU, %": _mean([(each.video, each.tiou or 0.0) for each in marked]),
                }
            )
    if not rows:
        raise MissingRuns("citations: no run is of a benchmark that marks where its answers are")
    notes = (
        "An answer cites what decided it: of a program the calls that gave the letter, what was found at the "
        "moments they looked at, and what they had to read; of a direct answer the frames it was shown; "
        "of an agent the steps on which the answer rests, if its method tells, else all of them. Clue found: "
        "the share of the benchmark's intervals in which something was cited. tIoU: intersection over union in "
        "time; frames more than three seconds apart cover no time. 95 % intervals by video.",
    )
    return Section("citations", "Citations", "", (Table.of("Citations", rows, *notes),))


def _mean(values: Sequence[tuple[str, float]]) -> Estimate:
    clusters: dict[str, list[float]] = {}
    for video, value in values:
        clusters.setdefault(video, []).append(float(value))
    mean = sum(value for _, value in values) / len(values)
    return estimate(mean, shown_interval(mean_interval(clusters, low=0.0, high=1.0), len(clusters)))
