"""The plans of the shipped roads."""

from __future__ import annotations

from functools import partial

from perf.tables.shared import Record, Table, Tables

_HEADS = ["stage", "works on", "GPU-hours", "dollars"]


def _plan(name: str, record: Record) -> Table:
    stages = record[name]["stages"]
    rows = [
        [stage["stage"], stage["works_on"], *map(_number, (stage["gpu_hours"], stage["dollars"]))]
        for stage in stages
    ]
    sums = [sum(stage[figure] or 0 for stage in stages) for figure in ("gpu_hours", "dollars")]
    return _HEADS, [*rows, ["all", "", *map(_number, sums)]]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


TABLES: Tables = {
    ("perf/road.json", f"plan of {name}"): partial(_plan, name) for name in ("paper", "one-gpu")
}
