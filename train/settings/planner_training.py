"""The settings that all planner training has in addition to TRL's own: rows, videos and evaluation."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from videopro.errors import ConfigError
from videopro.methods.program import Refinement
from videopro.traces import FallbackRule
from videopro.video import NEAREST_INTACT_HELP

AUTO, ALL = "auto", "all"
KINDS = ("plan", *get_args(Refinement))
"""The kinds of prompts that a row may have."""
MODULES_HELP = "models behind the modules, as in the --options of videopro infer, such as encoder: none"


def option(default: Any, help: str, choices: Collection[str] = ()) -> Any:
    """A field of the settings of a training."""
    # Not `videopro.cli.option`: TRL's parser takes no other words in the metadata than its own.
    return field(default=default, metadata={"help": help, **({"choices": choices} if choices else {})})


@dataclass
class TrainingConfig:
    """A mixin: list it before TRL's config class in the bases."""

    # It does not derive from TrainingArguments, whose defaults would override TRL's.
    if TYPE_CHECKING:
        output_dir: str | None = None
        seed: int = 0
        eval_strategy: Any = None
        report_to: Any = None
        disable_tqdm: bool | None = None
        kept_features_gb: float = 0.0
        logging_nan_inf_filter: bool = False
        ddp_find_unused_parameters: bool | None = None

    ROWS: ClassVar[str] = "rows"
    """The kind of file that `train_data` must be, for messages."""
    STAGE: ClassVar[str]
    """What its record calls the videos of this training."""
    MODULES: ClassVar[str] = "modules"
    """The setting with the models behind the modules."""
    FIXED: ClassVar[Mapping[str, str]] = {}
    """TRL's settings that keep their defaults, and why."""

    train_data: str | None = option(
        None,
        "rows to train on: videopro sft takes sft.jsonl or the release's train_sft.jsonl,"
        " videopro grpo grpo.jsonl or the release's train_grpo.jsonl",
    )
    adapter: str | None = option(
        None,
        "folder or hub name of an adapter to continue training, such as one made by videopro sft;"
        " its own settings then apply, not use_peft and lora_*",
    )
    eval_data: str | None = option(
        None, "held-out rows in the same format, on which loss or rewards are measured"
    )
    eval_questions: str | None = option(
        None,
        "held-out questions to plan, run and answer: a grpo.jsonl, a folder with questions.jsonl,"
        " or pocket:SPLIT",
    )
    # Whole videos, since to decode and index one costs more than another question about it.
    eval_limit: int | None = option(
        None, "number of held-out questions to use (whole videos, drawn by seed); unset: all"
    )
    prompts: str | None = option(
        None,
        "the planner's prompts, as --prompts of videopro infer, if the rows have others than"
        " ours: of eval_questions and of refinements in two-turn episodes; recorded with the planner."
        " Unset: those that its start recorded, else ours",
    )
    fallback: str = option(
        "none",
        "what answers a held-out question when its program did not, as in videopro infer: "
        "none, or native (the model directly, without its adapter)",
        get_args(FallbackRule),
    )
    frames: int | None = option(None, "frames per video; unset: what the model was trained with, else 64")
    pixels: int | None = option(
        None, "maximum pixels per frame; unset: what the model was trained with, else 50176"
    )
    # One place for all runs: those that show a video in the same way share what was decoded.
    frame_cache: str | None = option(None, "folder for decoded frames; unset: $VIDEOPRO_CACHE/frames")
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP)
    decode_workers: int = option(4, "videos decoded in parallel by each process")
    # Half the size, and a base in bfloat16 rounds what is added to it anyway.
    adapter_dtype: str = option(
        "bfloat16", "dtype of the final adapter; checkpoints keep full precision", ("bfloat16", "float32")
    )
    checkpoint: str = option(
        ALL,
        "layers that gradient_checkpointing computes again in the backward pass: all, or auto:"
        " only as many as the memory of a GPU needs for each batch",
        (ALL, AUTO),
    )
    compile_layers: bool = option(
        False,
        "compile the language model's layers for training on a GPU: about half a minute for each"
        " width of a batch that is new, and shorter steps after it",
    )

    @property
    def n_gpu(self) -> int:
        """The GPUs of a process: one at most. With more, transformers would split each batch over all GPUs
        that a single process sees (nn.DataParallel), and the patches of a video with it."""
        seen: int = super().n_gpu  # type: ignore[misc]
        return min(seen, 1)

    def set_facts(self) -> None:
        """Set what is no choice in these trainings. Called before TRL's own `__post_init__`."""
        # In a file or a job's log a bar would be one endless line around the log's own lines.
        if self.disable_tqdm is None and not sys.stderr.isatty():
            self.disable_tqdm = True
        # A NaN or infinite loss stops the run (videopro.train.runtime.trainer), and evaluations show it.
        self.logging_nan_inf_filter = False
        # Every trained weight takes part in every step (videopro.train.runtime.dummy_vision), so DDP need not
        # look for unused ones.
        self.ddp_find_unused_parameters = False

    def check_run(self, *counts: str) -> None:
        """Raise ConfigError for invalid settings. `counts`: further settings that must be at least 1."""
        for name in ("frames", "pixels", "eval_limit", "decode_workers", *counts):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        if self.kept_features_gb < 0:
            raise ConfigError(f"kept_features_gb is {self.kept_features_gb}; it must be at least 0")
        for name, why in self.FIXED.items():
            if getattr(self, name) != getattr(type(self), name):
                raise ConfigError(f"{name} is {getattr(self, name)!r}, but {why}; leave it out")
        # TRL's parser checks what a flag says, but not the values of a file.
        for each in fields(self):
            value, choices = getattr(self, each.name), each.metadata.get("choices", ())
            if choices and isinstance(value, str) and value not in choices:
                raise ConfigError(f"{each.name} is {value!r}; it must be {' or '.join(choices)}")
        # One without the other would be a run that measures nothing, noticed hours later.
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
    def longest(self) -> int:
        """The maximum length of a program in tokens. Raises ConfigError if it is not set."""
        raise NotImplementedError

    @property
    def train_path(self) -> Path:
        """The file of rows to train on. Raises ConfigError if it is not set."""
        if not self.train_data:
            raise ConfigError(
                f"train_data is missing; give {self.ROWS} (train_data: FILE, or --train_data FILE)"
            )
        return Path(self.train_data)


def check_kinds(kinds: Collection[str]) -> None:
    """Raise ConfigError unless these are some of KINDS."""
    if not kinds or not set(kinds) <= set(KINDS):
        raise ConfigError(f"kinds is {list(kinds)!r}; name some of {', '.join(KINDS)}")
