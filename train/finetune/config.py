"""The settings of a fine-tuning run: TRL's own, and those for videos and programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trl import SFTConfig

from videopro.errors import ConfigError
from videopro.train.runtime import MODULES_HELP, TrainingConfig, check_choice

CHOICES = ("frozen", "trained")


@dataclass
class VideoSFTConfig(TrainingConfig, SFTConfig):
    """TRL's SFTConfig, `TrainingConfig` and the settings below. All can be set in a YAML file (`--config`)
    and by flags."""

    ROWS = "sft.jsonl"

    eval_modules: dict[str, Any] | str | None = field(default=None, metadata={"help": MODULES_HELP})
    eval_max_new_tokens: int = field(default=1024, metadata={"help": "maximum length of a program in tokens"})
    vision: str = field(
        default="frozen", metadata={"help": "the vision tower: frozen or trained", "choices": CHOICES}
    )
    projector: str = field(
        default="frozen",
        metadata={
            "help": "the projector from the vision tower to the language model: frozen or trained",
            "choices": CHOICES,
        },
    )
    vision_lr: float | None = field(
        default=None, metadata={"help": "learning rate of the vision tower; unset: learning_rate"}
    )
    projector_lr: float | None = field(
        default=None, metadata={"help": "learning rate of the projector; unset: learning_rate"}
    )

    _VALID_DICT_FIELDS = [*SFTConfig._VALID_DICT_FIELDS, "eval_modules"]

    # Rows are never truncated (that would separate visual tokens from their features), and the collator needs
    # all columns.
    max_length: int | None = field(
        default=None, metadata={"help": "rows are never truncated; leave it unset"}
    )
    remove_unused_columns: bool = field(default=False, metadata={"help": "the collator needs all columns"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dataset_kwargs = {"skip_prepare_dataset": True}
        for name in ("packing", "padding_free", "assistant_only_loss", "eos_token", "chat_template_path"):
            if getattr(self, name):
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}, which this project's collator does not support; "
                    f"leave {name} out"
                )
        for name in ("max_length", "completion_only_loss"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}; rows are never truncated and the loss is always on "
                    f"the reply: leave {name} out"
                )
        if self.remove_unused_columns:
            raise ConfigError(
                "remove_unused_columns is true, but the collator needs all columns; leave it out"
            )
        for name in ("vision", "projector"):
            check_choice(name, getattr(self, name), CHOICES)
            if getattr(self, f"{name}_lr") is not None and getattr(self, name) == "frozen":
                raise ConfigError(f"{name}_lr is set, but {name} is frozen; leave {name}_lr out, or train it")
            if self.adapter and getattr(self, name) == "trained":
                raise ConfigError(
                    f"{name} is trained and adapter is set, but an adapter's own settings decide what is "
                    "trained; leave one of them out"
                )
        self.check_run("eval_max_new_tokens")
