"""Rewards of GRPO: running a reply's program and scoring the outcome."""

from videopro.train.rewards.functions import ProgramRewards
from videopro.train.rewards.rows import EVALUATION, POLICY_VERSION, ROW, RewardRow, read_question, read_row
from videopro.train.rewards.runs import TurnOutcome
from videopro.train.rewards.scoring import ACCURACIES, ANSWER, EQUATION, FORMS, score

__all__ = [
    "ACCURACIES",
    "ANSWER",
    "EQUATION",
    "EVALUATION",
    "FORMS",
    "ProgramRewards",
    "POLICY_VERSION",
    "ROW",
    "RewardRow",
    "TurnOutcome",
    "read_question",
    "read_row",
    "score",
]
