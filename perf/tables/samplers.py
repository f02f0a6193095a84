"""GRPO with an engine beside GRPO that samples by itself."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from perf.tables.shared import Record, Table, Tables


def _samplers(record: Record) -> Table:
    rows = []
    for name, run in record["runs"].items():
        rewards = run["rewards"]
        half = len(rewards) // 2
        ratios = [ratio for ratio in run.get("ratio_mean", ()) if ratio is not None]
        least = [ratio for ratio in run.get("ratio_min", ()) if ratio is not None]
        most = [ratio for ratio in run.get("ratio_max", ()) if ratio is not None]
        rows.append(
            [
                name,
                *(f"{statistics.mean(part):.3f}" for part in (rewards, rewards[:half], rewards[half:])),
                f"{statistics.stdev(rewards):.2f}",
                _range(ratios),
                _range([min(least), max(most)] if least else []),
            ]
        )
    heads = ["", "mean reward", "first half", "second half", "standard deviation of a step"]
    return [*heads, "ratio, mean of a step", "ratio, any token"], rows


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}" if values else "-"


TABLES: Tables = {("perf/samplers.json", "samplers"): _samplers}
