"""The shipped planner's programs, written greedily and sampled."""

from __future__ import annotations

from perf.sampled import WORLDS, compared, on_val
from perf.tables.shared import Record, Table, Tables
from videopro.traces.scoring import percent, percent_interval


def _greedy_and_sampled(_: Record) -> Table:
    """Each way on val, where the default was chosen, and two on test and a fresh world."""
    rows = []
    titles = {"test": "test", "fresh": "a fresh world"}
    for world, figures in (("val", on_val()), *((titles[world], compared(world)) for world in WORLDS)):
        for how, row in figures.items():
            first, last = (row["rules"][rule] for rule in ("first", "last"))
            rows.append(
                [
                    f"{world}, {how}",
                    str(row["questions"]),
                    str(len(row["seeds"])),
                    percent(row["well_formed"]),
                    percent(first["accuracy"]),
                    percent(last["accuracy"]),
                    percent_interval(last["accuracy_ci95"]),
                    ", ".join(map(percent, last["seeds"])) if len(last["seeds"]) > 1 else "",
                ]
            )
    heads = ["", "questions", "seeds", "first programs well-formed, %", "right before refinement, %"]
    return [*heads, "right, %", "95 %, questions", "by seed"], rows


TABLES: Tables = {("docs/results/pocket-sampled/test-0.json", "greedy and sampled"): _greedy_and_sampled}
