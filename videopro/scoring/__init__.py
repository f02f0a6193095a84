"""Metrics over verdicts: accuracy, calibration, intervals, and what programs did."""

from videopro.scoring.intervals import clustered_interval
from videopro.scoring.metrics import (
    SEVERAL,
    Accuracy,
    Bin,
    Difference,
    Scored,
    accuracy,
    auroc,
    coverage,
    expected_calibration_error,
    group_accuracy,
    grouped,
    macro_accuracy,
    official_accuracy,
    paired_difference,
    reliability,
    unparsed_rate,
)
from videopro.scoring.over_seeds import ROUTING, Row, table_of
from videopro.scoring.percentages import percent
from videopro.scoring.planning import Mode, Planned, figures, oracle_mode, oracle_modes, planned
from videopro.scoring.programs import counted, is_fallback, program_numbers
from videopro.scoring.verdicts import is_answerable, official_records_of, records_of
from videopro.scoring.weighted import Part, weighted_accuracy, weighted_difference

__all__ = [
    "Accuracy",
    "Bin",
    "Difference",
    "Mode",
    "Part",
    "Planned",
    "ROUTING",
    "Row",
    "SEVERAL",
    "Scored",
    "accuracy",
    "auroc",
    "clustered_interval",
    "counted",
    "coverage",
    "expected_calibration_error",
    "figures",
    "group_accuracy",
    "grouped",
    "is_answerable",
    "is_fallback",
    "macro_accuracy",
    "official_accuracy",
    "official_records_of",
    "oracle_mode",
    "oracle_modes",
    "paired_difference",
    "percent",
    "planned",
    "program_numbers",
    "records_of",
    "reliability",
    "table_of",
    "unparsed_rate",
    "weighted_accuracy",
    "weighted_difference",
]
