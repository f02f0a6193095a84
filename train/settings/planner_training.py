"""The settings that all planner training has in addition to TRL's own: rows, videos and evaluation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from videopro.errors import ConfigError
from videopro.traces import FallbackRule
from videopro.video import NEAREST_INTACT_HELP

FALLBACKS: tuple[str, ...] = get_args(FallbackRule)
AUTO, ALL = "auto", "all"
ADAPTER_DTYPES = ("bfloat16", "float32")
MODULES_HELP = "models behind the modules, as in the --options of videopro infer, such as encoder: none"


@dataclass
class TrainingConfig:
    """A mixin: list it before TRL's config class in the bases."""

    # It does not derive from TrainingArguments, whose defaults would override TRL's.
    if TYPE_CHECKING:
        eval_strategy: Any = "no"
        report_to: Any = "none"

    ROWS: ClassVar[str] = "rows"
    """The kind of file that `train_data` must be, for messages."""
    STAGE: ClassVar[str]
    """What its record calls the videos of this training."""

    train_data: str | None = field(
        default=None,
        metadata={
            "help": "rows to train on: videopro sft takes sft.jsonl or the release's train_sft.jsonl,"
            " videopro grpo grpo.jsonl or the release's train_grpo.jsonl"
        },
    )
    adapter: str | None = field(
        default=None,
        metadata={
            "help": "folder or hub name of an adapter to continue training, such as one made by videopro sft;"
            " its own settings then apply, not use_peft and lora_*"
        },
    )
    eval_data: str | None = field(
        default=None,
        metadata={"help": "held-out rows in the same format, on which loss or rewards are measured"},
    )
    eval_questions: str | None = field(
        default=None,
        metadata={
            "help": "held-out questions to plan, run and answer: a grpo.jsonl, a folder with questions.jsonl,"
            " or pocket:SPLIT"
        },
    )
    eval_limit: int | None = field(
        default=None,
        metadata={"help": "number of held-out questions to use (whole videos, drawn by seed); unset: all"},
    )
    prompts: str | None = field(
        default=None,
        metadata={
            "help": "the planner's prompts, as --prompts of videopro infer, if the rows have others than"
            " ours: of eval_questions and of refinements in two-turn episodes; recorded with the planner."
            " Unset: those that its start recorded, else ours"
        },
    )
    fallback: str = field(
        default="none",
        metadata={
            "help": "what answers a held-out question when its program did not, as in videopro infer: "
            "none, or native (the model directly, without its adapter)",
            "choices": FALLBACKS,
        },
    )
    frames: int | None = field(
        default=None,
        metadata={"help": "frames per video; unset: what the model was trained with, else 64"},
    )
    pixels: int | None = field(
        default=None,
        metadata={"help": "maximum pixels per frame; unset: what the model was trained with, else 50176"},
    )
    frame_cache: str | None = field(
        default=None, metadata={"help": "folder for decoded frames; unset: $VIDEOPRO_CACHE/frames"}
    )
    nearest_intact: float = field(default=0.0, metadata={"help": NEAREST_INTACT_HELP})
    decode_workers: int = field(default=4, metadata={"help": "videos decoded in parallel by each process"})
    adapter_dtype: str = field(
        default="bfloat16",
        metadata={
            "help": "dtype of the final adapter; checkpoints keep full precision",
            "choices": ADAPTER_DTYPES,
        },
    )
    checkpoint: str = field(
        default=ALL,
        metadata={
            "help": "layers that gradient_checkpointing computes again in the backward pass: all, or auto:"
            " only as many as the memory of a GPU needs for each batch",
            "choices": (ALL, AUTO),
        },
    )
    compile_layers: bool = field(
        default=False,
        metadata={
            "help": "compile the language model's layers for training on a GPU: about half a minute for each"
            " width of a batch that is new, and shorter steps after it"
        },
    )
    # Every trained weight takes part in every step (videopro.train.runtime.dummy_vision), so DDP need not
    # look for unused ones.
    ddp_find_unused_parameters: bool | None = field(
        default=False, metadata={"help": "as in TrainingArguments"}
    )

    # In a file or a job's log a bar would be one endless line around the log's own lines.
    disable_tqdm: bool | None = field(
        default=None if sys.stderr.isatty() else True,
        metadata={"help": "hide the bar over the steps; unset: if the output is not a terminal"},
    )

    # A NaN or infinite loss stops the run (videopro.train.runtime.trainer), and evaluations show it
    # as it is.
    logging_nan_inf_filter: bool = field(default=False, metadata={"help": "as in TrainingArguments"})

    @property
    def n_gpu(self) -> int:
        """The GPUs of a process: one at most. With more, transformers would split each batch over all GPUs
        that a single process sees (nn.DataParallel), and the patches of a video with it."""
        seen: int = super().n_gpu  # type: ignore[misc]
        return min(seen, 1)

    def check_run(self, *counts: str) -> None:
        """Raise ConfigError for invalid settings. `counts`: further settings that must be at least 1."""
        for name in ("frames", "pixels", "eval_limit", "decode_workers", *counts):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        check_choice("fallback", self.fallback, FALLBACKS)
        check_choice("checkpoint", self.checkpoint, (ALL, AUTO))
        check_choice("adapter_dtype", self.adapter_dtype, ADAPTER_DTYPES)
        if self.eval_strategy != "no" and not (self.eval_data or self.eval_questions):
            raise ConfigError(
                f"eval_strategy is {str(self.eval_strategy)!r}, but there is nothing to evaluate on; "
                "set eval_data or eval_questions, or leave eval_strategy out"
            )
        if (self.eval_data or self.eval_questions) and self.eval_strategy == "no":
            raise ConfigError(
                "eval_data or eval_questions is set, but eval_strategy is 'no'; set eval_strategy: steps "
                "and eval_steps"
            )

    def mapping(self, name: str) -> dict[str, Any]:
        """A setting that is a mapping; empty if it is unset. Raises ConfigError for anything else."""
        value = getattr(self, name)
        if isinstance(value, str):
            raise ConfigError(
                f"{name} is {value!r}; it must be a mapping (JSON on a command line), such as "
                '\'{"encoder": "none"}\''
            )
        return value or {}

    @property
    def train_path(self) -> Path:
        """The file of rows to train on. Raises ConfigError if it is not set."""
        if not self.train_data:
            raise ConfigError(
                f"train_data is missing; give {self.ROWS} (train_data: FILE, or --train_data FILE)"
            )
        return Path(self.train_data)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ConfigError for a value that is not one of the choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; it must be {' or '.join(choices)}")
