"""The settings that all planner training has in addition to TRL's own: rows, videos and evaluation."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from videopro.backbones import VideoMarks
from videopro.cli import check_least
from videopro.errors import ConfigError
from videopro.methods.program import Refinement
from videopro.traces import FallbackRule
from videopro.video import NEAREST_INTACT_HELP

AUTO, ALL = "auto", "all"
KINDS = ("plan", *get_args(Refinement))
"""The kinds of prompts that a row may have."""
MODULES_HELP = "models behind the modules, as in --options of videopro infer, such as encoder: none"


def option(default: Any, help: str, choices: Collection[str] = ()) -> Any:
    """A settings field of a training run."""
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
    """The stage under which the record lists this run's videos."""
    MODULES: ClassVar[str] = "modules"
    """The setting with the models behind the modules."""
    FIXED: ClassVar[Mapping[str, str]] = {}
    """TRL settings that must keep their defaults, and why."""

    train_data: str | None = option(
        None,
        "training rows: sft.jsonl or the release's train_sft.jsonl for videopro sft, grpo.jsonl or the "
        "release's train_grpo.jsonl for videopro grpo",
    )
    adapter: str | None = option(
        None,
        "adapter to continue training (folder or hub name), such as one from videopro sft; its settings "
        "replace use_peft and lora_*",
    )
    eval_data: str | None = option(None, "held-out rows in the same format, to measure loss or rewards")
    eval_questions: str | None = option(
        None,
        "held-out questions to answer with programs: a grpo.jsonl, a folder with questions.jsonl, or "
        "pocket:SPLIT",
    )
    # Whole videos, since to decode and index one costs more than another question about it.
    eval_limit: int | None = option(
        None, "number of held-out questions to use (whole videos, drawn by seed); unset: all"
    )
    prompts: str | None = option(
        None,
        "prompts of eval_questions and of refinements in two-turn episodes, as --prompts of videopro infer, "
        "if the rows do not use the default prompts; recorded with the planner. Unset: the prompts that the "
        "start records, else the default prompts",
    )
    fallback: str = option(
        "none",
        "fallback for held-out questions whose program gives no answer, as in videopro infer: none, or "
        "native (the model without its adapter)",
        get_args(FallbackRule),
    )
    frames: int | None = option(None, "frames per video; unset: as the model was trained, else 64")
    pixels: int | None = option(None, "maximum pixels per frame; unset: as the model was trained, else 50176")
    video_marks: str | None = option(
        None,
        "marks of a video in prompts of Qwen3-VL and newer; unset: as the model was trained, else published",
        get_args(VideoMarks),
    )
    # One place for all runs: those that show a video in the same way share what was decoded.
    frame_cache: str | None = option(None, "folder for decoded frames; unset: $VIDEOPRO_CACHE/frames")
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP)
    decode_workers: int = option(4, "videos to decode in parallel per process")
    # Half the size, and a base in bfloat16 rounds what is added to it anyway.
    adapter_dtype: str = option(
        "bfloat16", "dtype of the final adapter; checkpoints stay in full precision", ("bfloat16", "float32")
    )
    checkpoint: str = option(
        ALL,
        "layers that gradient_checkpointing recomputes in the backward pass: all, or auto (only as many as "
        "each batch needs to fit in GPU memory)",
        (ALL, AUTO),
    )

    @property
    def n_gpu(self) -> int:
        """The GPUs of a process: one at most. With more, transformers would split each batch over all GPUs
        that a single process sees (nn.DataParallel), and the patches of a video with it."""
        seen: int = super().n_gpu  # type: ignore[misc]
        return min(seen, 1)

    def set_facts(self) -> None:
        """Set what these runs always use. Called before TRL's `__post_init__`."""
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
        check_least(self, 1, "frames", "pixels", "eval_limit", "decode_workers", *counts)
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
                f"eval_strategy is {str(self.eval_strategy)!r}, but there is nothing to evaluate; set "
                "eval_data or eval_questions, or leave eval_strategy out"
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
                f"train_data is missing; set it to {self.ROWS} (train_data: FILE, or --train_data FILE)"
            )
        return Path(self.train_data)


def check_kinds(kinds: Collection[str]) -> None:
    """Raise ConfigError unless these are some of KINDS."""
    if not kinds or not set(kinds) <= set(KINDS):
        raise ConfigError(f"kinds is {list(kinds)!r}; it must be some of {', '.join(KINDS)}")
