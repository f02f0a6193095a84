"""The table of the two tiers of tests."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables

_PARTS = {
    "first": ("first", "all others; `ruff` before, `mypy`, import contracts and the site beside them"),
    "kills": ("second", "`kills`: commands that are killed or interrupted, or run at once, and resumed"),
    "browser": ("second", "`browser`: the pages of runs and reports in Chromium"),
    "long": ("second", "`long`: many steps of training, many pictures; each has a shorter test of its kind"),
    "two_processes": ("second", "`two_processes`: training in two processes, also with FSDP and ZeRO"),
    "wheel": ("second", "`wheel`: the built package, installed outside the checkout"),
    "road": ("second", "`road`: the researcher's road in small, `bash launch/miniature.sh`"),
    "ray": ("second", "`ray`: Ray clusters of several nodes, and their deaths"),
    "live": ("second", "`live`, `live_untrusted`: a real vLLM that serves the pocket model"),
}


def _tiers(record: Record) -> Table:
    rows = []
    for name, (tier, tests) in _PARTS.items():
        part = record["parts"].get(name)
        if part is None:
            rows.append([tests, tier, *["not measured"] * 4])
            continue
        took = [f"{part[seconds]:,}" for seconds in ("seconds", "pytest_seconds")]
        rows.append([tests, tier, f"{part['tests']:,}", *took, f"{part['load_before']:g}"])
    return ["tests", "tier", "passed", "s", "of them pytest, s", "load average before"], rows


TABLES: Tables = {("perf/tiers.json", "tiers of tests"): _tiers}
