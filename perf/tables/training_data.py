"""The tables of what a synthesis's filters leave of CG-Bench, and of its plan."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables
from videopro.data_synthesis.plan import FILTER_HEADS, PLAN_HEADS, filter_rows, plan_rows


def _kept(record: Record) -> Table:
    limit = f"{record['limit']:,}"
    rows = [
        [name, f"{record[key]['questions']:,}", f"{record[key]['of limit']:,}"]
        for name, key in (("videos of mini left out", "before"), ("questions of mini held out", "after"))
    ]
    return ["", "questions of 12,129", f"of them with `--limit {limit}`"], rows


def _steps(record: Record) -> Table:
    return FILTER_HEADS, filter_rows(record["steps"])


def _plan(record: Record) -> Table:
    return PLAN_HEADS, plan_rows(record["plan"])


TABLES: Tables = {
    ("perf/training_data.json", "questions kept"): _kept,
    ("perf/training_data.json", "filters"): _steps,
    ("perf/training_data.json", "plan"): _plan,
}
