"""The settings of the training commands, and their help: readable without TRL."""

from videopro.train.settings.grpo import TWO_TURN as TWO_TURN
from videopro.train.settings.grpo import VLLM as VLLM
from videopro.train.settings.grpo import GRPOSettings as GRPOSettings
from videopro.train.settings.help import GRPO as GRPO
from videopro.train.settings.help import SFT as SFT
from videopro.train.settings.merge_and_rejection import MERGE as MERGE
from videopro.train.settings.merge_and_rejection import REJECTION as REJECTION
from videopro.train.settings.merge_and_rejection import MergeConfig as MergeConfig
from videopro.train.settings.merge_and_rejection import RejectionConfig as RejectionConfig
from videopro.train.settings.planner_training import AUTO as AUTO
from videopro.train.settings.planner_training import KINDS as KINDS
from videopro.train.settings.planner_training import TrainingConfig as TrainingConfig
from videopro.train.settings.planner_training import check_kinds as check_kinds
from videopro.train.settings.planner_training import option as option
from videopro.train.settings.sft import SFTSettings as SFTSettings
