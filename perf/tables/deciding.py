"""The table of how well confidences fit that were carried through programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perf.tables.shared import Record, Table, Tables

_RULES = {
    "product": "product",
    "least": "least",
    "product, each call by itself": "product, without calls that decided together",
    "least, each call by itself": "least, without calls that decided together",
}

_NUMBERS = ("mean confidence", "ece", "auroc")


def _calibration(record: Record) -> Table:
    tables = record["tables"]
    rows = [[label, *_cells(tables["rules"][rule])] for rule, label in _RULES.items()]
    rows.append(["guesses (earlier versions)", *_cells(tables["earlier rule (0)"])])
    return ["confidence", "n", "right, in %", "mean confidence", "ECE", "AUROC"], rows


def _sources(record: Record) -> Table:
    rows = [
        [f"`{source}`" if source != "nothing" else "no call", *_cells(numbers["product"])]
        for source, numbers in record["tables"]["by what decided"].items()
    ]
    return ["what decided", "n", "right, in %", "mean confidence", "ECE", "AUROC"], rows


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
}
