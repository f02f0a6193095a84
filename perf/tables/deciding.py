"""The tables of how well confidences fit that were carried through programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perf.tables.shared import Record, Table, Tables

_HEAD = ["n", "right, in %", "mean confidence", "ECE", "AUROC"]


def _calibration(record: Record) -> Table:
    rows = [
        [family, rule, *_cells(numbers)]
        for family, rules in record["tables"]["rules"].items()
        for rule, numbers in rules.items()
        if family != "constant"
    ]
    return ["programs", "confidence", *_HEAD], rows


def _sources(record: Record) -> Table:
    rows = [
        [f"`{source}`" if source != "nothing" else "no call", *_cells(numbers)]
        for source, numbers in record["tables"]["by what decided"].items()
    ]
    return ["what decided", *_HEAD], rows


def _others(record: Record) -> Table:
    rows = [
        [family, str(counts["sure"]), str(counts["then a guess"])]
        for family, counts in record["tables"]["other videos"].items()
    ]
    return ["programs", "with a confidence above 0", "of these then a guess"], rows


def _cells(numbers: Mapping[str, Any]) -> list[str]:
    share = numbers["accuracy"]
    return [
        str(numbers["n"]),
        "" if share is None else f"{100 * share:.1f}",
        *(
            "" if numbers[key] is None else f"{numbers[key]:.3f}"
            for key in ("mean confidence", "ece", "auroc")
        ),
    ]


TABLES: Tables = {
    ("perf/deciding.json", "calibration of reasoned letters"): _calibration,
    ("perf/deciding.json", "calibration by what decided"): _sources,
    ("perf/deciding.json", "with other videos"): _others,
}
