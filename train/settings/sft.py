"""What fine-tuning takes beside TRL's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from videopro.train.settings.planner_training import MODULES_HELP, TrainingConfig

PART_CHOICES = ("frozen", "trained")


@dataclass
class SFTSettings(TrainingConfig):
    """A mixin: list it before TRL's SFTConfig in the bases."""

    ROWS = "sft.jsonl"
    STAGE = "sft"

    eval_modules: dict[str, Any] | str | None = field(default=None, metadata={"help": MODULES_HELP})
    eval_max_new_tokens: int = field(default=1024, metadata={"help": "maximum length of a program in tokens"})
    vision: str = field(
        default="frozen", metadata={"help": "the vision tower: frozen or trained", "choices": PART_CHOICES}
    )
    projector: str = field(
        default="frozen",
        metadata={
            "help": "the projector from the vision tower to the language model: frozen or trained",
            "choices": PART_CHOICES,
        },
    )
    vision_lr: float | None = field(
        default=None, metadata={"help": "learning rate of the vision tower; unset: learning_rate"}
    )
    projector_lr: float | None = field(
        default=None, metadata={"help": "learning rate of the projector; unset: learning_rate"}
    )
    kept_features_gb: float = field(
        default=0.0,
        metadata={
            "help": "memory in GB of the host, for each process, for a frozen vision tower's features of"
            " recent videos; 0: the tower runs in every step"
        },
    )
