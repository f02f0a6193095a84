"""What a change gained at real shapes: an earlier checkout and a later one, in turn."""

from __future__ import annotations

from perf.tables.shared import Record, Table, Tables

_SHOWN = {"sampling": ("ms_a_token", "ms a token"), "GRPO": ("step_s", "s"), "SFT": ("step_s", "s")}


def _before_after(record: Record) -> Table:
    rows = []
    for name, case in record["cases"].items():
        figure, unit = next(shown for start, shown in _SHOWN.items() if name.startswith(start))
        before, after = (case[side] for side in ("before", "after"))
        rows.append(
            [
                f"{name}, {unit}",
                *(f"{side[figure]:.1f}" for side in (before, after)),
                f"{before[figure] / after[figure]:.2f}",
                *(f"{side['cpu_s']:.0f}" for side in (before, after)),
                *(f"{side['peak_gib']:.1f}" for side in (before, after)),
            ]
        )
    heads = ["", "before", "after", "times as fast", "CPU s before", "after", "GiB before", "after"]
    return heads, rows


TABLES: Tables = {("perf/before_after.json", "before and after"): _before_after}
