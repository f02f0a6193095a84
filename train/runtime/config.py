"""The settings that every training of a planner has beside TRL's own: rows, videos, and what is measured.

Knows settings; must not know what is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from videopro.errors import ConfigError
from videopro.traces import FallbackRule

FALLBACKS: tuple[str, ...] = get_args(FallbackRule)
MODULES_HELP = "models behind the modules, as in videopro.infer's options, such as encoder: none"


@dataclass
class TrainingConfig:
    """To be inherited from before a trainer's own settings class."""

    # It derives from no TrainingArguments: the defaults of those would win over TRL's.
    if TYPE_CHECKING:
        eval_strategy: Any = "no"

    ROWS: ClassVar[str] = "rows"
    """The file that `train_data` is to be, for messages."""

    train_data: str | None = field(
        default=None,
        metadata={
            "help": "rows to train on: train/sft.py takes sft.jsonl or the release's train_sft.jsonl,"
            " train/grpo.py grpo.jsonl"
        },
    )
    adapter: str | None = field(
        default=None,
        metadata={
            "help": "folder or hub name of an adapter to go on training, such as what train/sft.py left;"
            " its own settings then hold, not those of use_peft and lora_*"
        },
    )
    eval_data: str | None = field(
        default=None,
        metadata={"help": "held-out rows of the same form, for the loss on them or their rewards"},
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
    fallback: str = field(
        default="none",
        metadata={
            "help": "what answers a held-out question where its program did not, as in videopro.infer: "
            "none, or native (the model directly, without its adapter)",
            "choices": FALLBACKS,
        },
    )
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
    adapter_dtype: str = field(
        default="bfloat16",
        metadata={
            "help": "of the adapter that the run ends with; checkpoints stay exact",
            "choices": ("bfloat16", "float32"),
        },
    )
    # Every weight that is trained takes part in every step (videopro.train.runtime.dummy_vision), so nothing
    # need be found.
    ddp_find_unused_parameters: bool | None = field(
        default=False, metadata={"help": "as in TrainingArguments"}
    )

    # A loss that is no number stops the run (videopro.train.runtime.finite_steps), and is shown as what it
    # is in evaluations.
    logging_nan_inf_filter: bool = field(default=False, metadata={"help": "as in TrainingArguments"})

    def check_run(self, *counts: str) -> None:
        """Raise ConfigError for settings that cannot be. `counts`: further ones that must be at least 1."""
        for name in ("frames", "pixels", "eval_limit", "decode_workers", *counts):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        check_choice("fallback", self.fallback, FALLBACKS)
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

    def mapping(self, name: str) -> dict[str, Any]:
        """A setting that is a mapping; empty where it is unset. Raises ConfigError for anything else."""
        value = getattr(self, name)
        if isinstance(value, str):
            raise ConfigError(
                f"{name} is {value!r}; write a mapping, on a command line as JSON, such as "
                '\'{"encoder": "none"}\''
            )
        return value or {}

    @property
    def train_path(self) -> Path:
        """Where the rows are. Raises ConfigError if it was not said."""
        if not self.train_data:
            raise ConfigError(
                f"train_data is missing; give {self.ROWS} (train_data: FILE, or --train_data FILE)"
            )
        return Path(self.train_data)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ConfigError for a value that is none of the choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
