"""The settings of the training commands, and their help: readable without TRL."""

from videopro.train.settings.grpo import EPISODES, KINDS, SAMPLERS, SINGLE, TWO_TURN, VLLM, GRPOSettings
from videopro.train.settings.help import help_without_extra, parser_texts
from videopro.train.settings.merge_and_rejection import MERGE, REJECTION, MergeConfig, RejectionConfig
from videopro.train.settings.planner_training import AUTO, MODULES_HELP, TrainingConfig, check_choice
from videopro.train.settings.sft import PART_CHOICES, SFTSettings

__all__ = [
    "AUTO",
    "MERGE",
    "MergeConfig",
    "REJECTION",
    "RejectionConfig",
    "EPISODES",
    "GRPOSettings",
    "KINDS",
    "MODULES_HELP",
    "PART_CHOICES",
    "SAMPLERS",
    "SFTSettings",
    "SINGLE",
    "TWO_TURN",
    "TrainingConfig",
    "VLLM",
    "check_choice",
    "help_without_extra",
    "parser_texts",
]
