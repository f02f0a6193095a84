"""The settings of the training commands that do not use TRL's parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopro.cli import CommandLine, check_least, option, setting
from videopro.errors import ConfigError
from videopro.methods import ANSWERER_HELP
from videopro.methods.program import REASONED, REASONED_HELP
from videopro.traces import ReasonedRule
from videopro.train.settings.planner_training import KINDS, check_kinds
from videopro.video import NEAREST_INTACT_HELP


@dataclass(frozen=True)
class MergeConfig:
    """What to merge."""

    base: str = field(metadata=setting("base model of the adapter: pocket, a hub name or a folder"))
    adapter: str = field(metadata=setting("adapter: folder or hub name"))
    # A folder that is there may be a model that somebody uses.
    output: Path = field(metadata=setting("folder for the merged checkpoint; must not exist"))


@dataclass(frozen=True)
class RejectionConfig:
    """Settings of the command. Raises ConfigError for invalid ones."""

    model: str = field(metadata=setting("base model of the policy: pocket, a hub name or a folder"))
    data: Path = field(metadata=setting("prompts: a grpo.jsonl"))
    output: Path = field(metadata=setting("output file, in the format of sft.jsonl"))
    adapter: str | None = option(None, "adapter of the policy: folder or hub name")
    answerer: str | None = option(None, ANSWERER_HELP)
    kinds: tuple[str, ...] = option(KINDS, "kinds of prompts")
    limit: int | float | None = option(
        None,
        "number of prompts to sample, or a share below 1, such as 0.1 (whole videos, in an order drawn from "
        "seed)",
    )
    samples: int = option(8, "replies per prompt")
    temperature: float = option(1.0, "sampling temperature")
    max_new_tokens: int = option(1024, "maximum length of a program in tokens")
    batch_size: int = option(
        8, "batch size of sampling; if larger than samples, prompts of a video share a batch"
    )
    workers: int = option(4, "programs to run in parallel")
    modules: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting("models behind the modules, as in --options of videopro infer"),
    )
    reasoned_confidence: ReasonedRule = option(REASONED, REASONED_HELP)
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP)
    seed: int = option(0, "random seed")

    def __post_init__(self) -> None:
        check_least(self, 1, "samples", "max_new_tokens", "batch_size", "workers")
        # At 0 all samples of a prompt would be the same reply.
        if self.temperature <= 0:
            raise ConfigError(f"temperature is {self.temperature}; it must be above 0")
        check_kinds(self.kinds)


MERGE = CommandLine("merge", MergeConfig)
REJECTION = CommandLine("rejection", RejectionConfig)
