"""Metrics over question scores: accuracy, calibration, confidence intervals, planning and programs."""

from videopro.scoring.agents import (
    Replies,
    agent_metrics,
    is_agent,
    is_forced,
    lack_of_model,
    mean_frames_seen,
    replies_of,
)
from videopro.scoring.behaviour import BEHAVIOURS, Behaviour, BehaviourRow, behaviour, behaviour_rows
from videopro.scoring.costs import QuestionCosts, cost_metrics, mean_costs, question_costs
from videopro.scoring.exploration import SegmentChoice, segment_choices
from videopro.scoring.intervals import clustered_interval, t_interval
from videopro.scoring.metrics import (
    GROUP_SEPARATOR,
    Accuracy,
    Bin,
    Difference,
    QuestionScore,
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
from videopro.scoring.over_seeds import ROUTING, SeedRow, seed_table
from videopro.scoring.percentages import percent
from videopro.scoring.planning import (
    Mode,
    PlanRecord,
    oracle_mode,
    oracle_modes,
    plan_record,
    planning_metrics,
)
from videopro.scoring.programs import counted, is_fallback, program_metrics
from videopro.scoring.verdicts import is_answerable, official_records_of, records_of
from videopro.scoring.weighted import WeightedPart, weighted_accuracy, weighted_difference

__all__ = [
    "BEHAVIOURS",
    "Accuracy",
    "Behaviour",
    "BehaviourRow",
    "Bin",
    "Difference",
    "Mode",
    "WeightedPart",
    "PlanRecord",
    "QuestionCosts",
    "ROUTING",
    "Replies",
    "SeedRow",
    "SegmentChoice",
    "GROUP_SEPARATOR",
    "QuestionScore",
    "accuracy",
    "agent_metrics",
    "auroc",
    "behaviour",
    "behaviour_rows",
    "clustered_interval",
    "counted",
    "cost_metrics",
    "coverage",
    "expected_calibration_error",
    "planning_metrics",
    "group_accuracy",
    "grouped",
    "is_agent",
    "is_answerable",
    "is_fallback",
    "is_forced",
    "lack_of_model",
    "macro_accuracy",
    "mean_costs",
    "mean_frames_seen",
    "official_accuracy",
    "official_records_of",
    "oracle_mode",
    "oracle_modes",
    "paired_difference",
    "percent",
    "plan_record",
    "program_metrics",
    "question_costs",
    "records_of",
    "replies_of",
    "reliability",
    "seed_table",
    "segment_choices",
    "t_interval",
    "unparsed_rate",
    "weighted_accuracy",
    "weighted_difference",
]
