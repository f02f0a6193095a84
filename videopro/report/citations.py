"""The evidence that answers cite, and whether it is the part of the video that holds the answer."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.benchmarks import Citations, citations
from videopro.report.runs import ReportRun, by_dataset
from videopro.report.table import (
    BENCHMARK,
    Cell,
    Estimate,
    MissingRuns,
    Section,
    Table,
    accuracy_cell,
    estimate,
)
from videopro.traces.scoring import accuracy, mean_interval, records_of, shown_interval


def cited(runs: Sequence[ReportRun]) -> Section:
    """A row for each run of a benchmark that marks where its answers are."""
    rows: list[dict[str, Cell]] = []
    controlled: list[dict[str, Cell]] = []
    for data, group in by_dataset(runs).items():
        for run in group:
            found = citations(run.own_traces)
            if any(each.moved for each in found):
                first = {
                    BENCHMARK: data.title,
                    "run": run.name,
                    "accuracy, %": accuracy_cell(accuracy(records_of(run.own_traces))),
                }
                controlled.append({**first, **_control(found, "without"), **_control(found, "alone")})
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
        "the share of the benchmark's intervals in which something was cited. tIoU: intersection over union "
        "in time; frames more than three seconds apart cover no time. 95 % intervals by video.",
    )
    tables = [Table.of("Citations", rows, *notes)]
    if controlled:
        notes = (
            "The share of letters that moved, to another or to none, when the question was asked again "
            "without what its answer cites, and with that alone: of a program, replayed with the results of "
            "the calls that it cites empty, or those of all others; of other answers, in one more pass of "
            "the model. Failed replays are not in the share.",
        )
        tables.append(Table.of("Controls", controlled, *notes, suffix="controls"))
    return Section("citations", "Citations", "", tuple(tables))


def _control(found: Sequence[Citations], name: str) -> dict[str, Cell]:
    moved = [(each.video, each.moved[name]) for each in found if name in each.moved]
    known = [(video, value) for video, value in moved if value is not None]
    heading = "without it" if name == "without" else "alone"
    return {
        f"{heading}, n": len(known),
        f"{heading}: moved, %": _mean(known) if known else None,
        f"{heading}: failed": len(moved) - len(known),
    }


def _mean(values: Sequence[tuple[str, float]]) -> Estimate:
    clusters: dict[str, list[float]] = {}
    for video, value in values:
        clusters.setdefault(video, []).append(float(value))
    mean = sum(value for _, value in values) / len(values)
    return estimate(mean, shown_interval(mean_interval(clusters, low=0.0, high=1.0), len(clusters)))
