"""The settings of a fine-tuning run: TRL's own, and what videos and programs add to them.

Knows settings; must not know what is done with them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl import SFTConfig

from videopro.errors import ConfigError

CHOICES = ("frozen", "trained")


@dataclass
class VideoSFTConfig(SFTConfig):
    """TRL's SFTConfig and the settings below, which a YAML file (`--config`) and flags may give alike."""

    train_data: str | None = field(
        default=None, metadata={"help": "sft.jsonl, or the release's train_sft.jsonl"}
    )
    eval_data: str | None = field(
        default=None, metadata={"help": "held-out rows of the same form, for the loss on them"}
    )
    eval_questions: str | None = field(
        default=None,
        metadata={
            "help": "held-out questions to plan, run and answer: a grpo.jsonl, a folder with questions.jsonl,"
            " or pocket:SPLIT"
        },
    )
    eval_limit: int | None = field(
        default=None, metadata={"help": "so many of the held-out questions (whole videos, drawn by seed)"}
    )
    eval_modules: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "models behind the modules, as in videopro.infer's options, such as encoder: none"},
    )
    eval_max_new_tokens: int = field(default=1024, metadata={"help": "longest program, in tokens"})
    frames: int | None = field(
        default=None, metadata={"help": "frames of a video; unset: what the model was made for, else 64"}
    )
    pixels: int | None = field(
        default=None,
        metadata={"help": "pixels a frame at most; unset: what the model was made for, else 50176"},
    )
    frame_cache: str | None = field(
        default=None, metadata={"help": "folder of decoded frames; unset: $VIDEOPRO_CACHE/frames"}
    )
    decode_workers: int = field(default=4, metadata={"help": "videos decoded side by side, a process"})
    vision: str = field(
        default="frozen", metadata={"help": "the vision tower: frozen or trained", "choices": CHOICES}
    )
    projector: str = field(
        default="frozen",
        metadata={
            "help": "from the vision tower to the language model: frozen or trained",
            "choices": CHOICES,
        },
    )
    vision_lr: float | None = field(
        default=None, metadata={"help": "learning rate of the vision tower; unset: learning_rate"}
    )
    projector_lr: float | None = field(
        default=None, metadata={"help": "learning rate of the projector; unset: learning_rate"}
    )
    adapter_dtype: str = field(
        default="bfloat16",
        metadata={
            "help": "of the adapter that the run ends with; checkpoints stay exact",
            "choices": ("bfloat16", "float32"),
        },
    )

    _VALID_DICT_FIELDS = [*SFTConfig._VALID_DICT_FIELDS, "eval_modules"]

    # Rows are never cut (a cut takes visual tokens from their features), and the collator needs all columns.
    max_length: int | None = field(default=None, metadata={"help": "rows are never cut; leave it unset"})
    remove_unused_columns: bool = field(default=False, metadata={"help": "the collator needs all columns"})
    # Every weight that is trained takes part in every step (train.dummy_vision), so nothing need be found.
    ddp_find_unused_parameters: bool | None = field(
        default=False, metadata={"help": "as in TrainingArguments"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dataset_kwargs = {"skip_prepare_dataset": True}
        for name in ("packing", "padding_free", "assistant_only_loss", "eos_token", "chat_template_path"):
            if getattr(self, name):
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}; batches are made by this project's collator, which "
                    f"does without: leave {name} out"
                )
        for name in ("max_length", "completion_only_loss"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}; rows are taken whole, with the loss on the reply: "
                    f"leave {name} out"
                )
        if self.remove_unused_columns:
            raise ConfigError("remove_unused_columns is true; the collator needs all columns: leave it out")
        for name in ("vision", "projector"):
            if getattr(self, name) not in CHOICES:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be frozen or trained")
            if getattr(self, f"{name}_lr") is not None and getattr(self, name) == "frozen":
                raise ConfigError(f"{name}_lr is set and {name} is frozen; leave one of them out")
        for name in ("frames", "pixels", "eval_limit", "decode_workers", "eval_max_new_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if self.eval_strategy != "no" and not (self.eval_data or self.eval_questions):
            raise ConfigError(
                f"eval_strategy is {str(self.eval_strategy)!r} and there is nothing to evaluate on; "
                "give eval_data or eval_questions, or leave it out"
            )
        if (self.eval_data or self.eval_questions) and self.eval_strategy == "no":
            raise ConfigError(
                "eval_data or eval_questions is given and eval_strategy is 'no'; give eval_strategy: steps "
                "and eval_steps"
            )

    @property
    def modules(self) -> dict[str, Any]:
        """`eval_modules` as a mapping. Raises ConfigError for anything else."""
        if isinstance(self.eval_modules, str):
            raise ConfigError(
                f"eval_modules is {self.eval_modules!r}; write a mapping, on a command line as JSON, such as "
                '\'{"encoder": "none"}\''
            )
        return self.eval_modules or {}

    @property
    def train_path(self) -> Path:
        """Where the rows are. Raises ConfigError if it was not said."""
        if not self.train_data:
            raise ConfigError(
                "train_data is missing; give sft.jsonl (train_data: FILE, or --train_data FILE)"
            )
        return Path(self.train_data)
