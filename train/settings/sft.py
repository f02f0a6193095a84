"""The settings of fine-tuning in addition to TRL's."""

# ruff: noqa: RUF009 (`option` makes a field of a dataclass, no default)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from videopro.train.settings.planner_training import MODULES_HELP, TrainingConfig, option

_PARTS = ("frozen", "trained")


@dataclass
class SFTSettings(TrainingConfig):
    """A mixin: list it before TRL's SFTConfig in the bases."""

    ROWS = "sft.jsonl"
    STAGE = "sft"
    MODULES = "eval_modules"

    eval_modules: dict[str, Any] | str | None = option(None, MODULES_HELP)
    eval_max_new_tokens: int = option(1024, "maximum length of a program in tokens")
    vision: str = option("frozen", "the vision tower: frozen or trained", _PARTS)
    projector: str = option(
        "frozen", "the projector from the vision tower to the language model: frozen or trained", _PARTS
    )
    # Off by default: several processes of a machine would each hold them.
    kept_features_gb: float = option(
        0.0,
        "GB of host memory per process to keep a frozen vision tower's features of recent videos; 0: run the "
        "tower in every step",
    )

    @property
    def longest(self) -> int:
        """The maximum length of a held-out question's program in tokens."""
        return self.eval_max_new_tokens
