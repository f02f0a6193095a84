"""The settings of `videopro reproduce`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro.cli import check_least, option, setting
from videopro.commands.reproduce.stages import STAGES
from videopro.errors import ConfigError

NONE = "none"
"""In place of a config: leave that out."""

TABLES = ("1", "2", "3", "4", "5", "figures")

_FILES, _DATA, _TRAIN, _EVALUATE = "Files", "Training data", "Training", "Evaluation"
_STAGES = "Which stages"


@dataclass(frozen=True)
class ReproduceConfig:
    """The settings of a reproduction, as flags or as YAML."""

    model: str = field(metadata=setting("the backbone: a hub name, a folder, or a plug-in", group=_TRAIN))
    output: Path = field(metadata=setting("folder for all outputs", group=_FILES))
    data: Path = option(
        Path("data"), "folder with one subfolder per benchmark, such as data/cg_bench", group=_FILES
    )
    remove_archives: bool = option(
        False, "delete each archive when its files are unpacked, for less disk", group=_FILES
    )
    gpus: int | None = option(None, "GPUs to use; unset: all on this machine", group=_TRAIN)
    processes: int | None = option(
        None, "processes that train and answer; unset: one per GPU, or one without GPUs", group=_TRAIN
    )
    backbone: dict[str, Any] = option(
        dict, "settings of the backbone for inference, such as dtype=bf16", group=_TRAIN
    )
    modules: dict[str, Any] = option(
        dict, "module models, as in --options of videopro infer, such as encoder=languagebind", group=_TRAIN
    )
    source: str = option("cg_bench", "benchmark whose questions are used for training", group=_DATA)
    synthesis: str = option(
        "cg_bench",
        "config of videopro synthesize: a name or a YAML file; none: no teacher, the backbone's own "
        "correct programs are the SFT rows",
        group=_DATA,
    )
    synthesize: dict[str, Any] = option(
        dict, "settings of videopro synthesize that override the config", group=_DATA
    )
    sft_data: str = option(
        "",
        "SFT rows made elsewhere, such as the release's train_sft.jsonl; none are synthesized then",
        group=_DATA,
    )
    grpo_data: str = option("", "GRPO rows made elsewhere; unset: rows made here", group=_DATA)
    grpo_prompts: Literal["teacher", "planner"] = option(
        "teacher",
        "prompts for GRPO: from the synthesis, or from questions and failures of the SFT planner "
        "(videopro prompts)",
        group=_DATA,
    )
    sft: str = option("qwen3vl_8b", "config of videopro sft: a name or a YAML file", group=_TRAIN)
    sft_settings: dict[str, Any] = option(
        dict, "settings of videopro sft that override the config", group=_TRAIN
    )
    sft_adapter: str = option("", "SFT adapter made elsewhere: a folder or hub name", group=_TRAIN)
    grpo: str = option(
        "qwen3vl_8b",
        "config of videopro grpo: a name or a YAML file; none: evaluate the SFT planner",
        group=_TRAIN,
    )
    grpo_settings: dict[str, Any] = option(
        dict, "settings of videopro grpo that override the config", group=_TRAIN
    )
    grpo_adapter: str = option("", "GRPO adapter made elsewhere: a folder or hub name", group=_TRAIN)
    accelerate: str = option(
        "",
        "config in configs/accelerate for training, such as zero2; unset: multi_gpu, one_gpu or one_cpu",
        group=_TRAIN,
    )
    merge: bool = option(
        False, "merge the last adapter into a plain checkpoint, to serve or publish", group=_TRAIN
    )
    benchmarks: tuple[str, ...] = option(
        ("videopro",), "benchmarks of Table 1: names, or videopro for the paper's four", group=_EVALUATE
    )
    ablation_benchmarks: tuple[str, ...] = option(
        ("lvbench", "videomme"), "the benchmarks of Tables 2 to 4, of --benchmarks", group=_EVALUATE
    )
    tables: tuple[str, ...] = option(TABLES, f"tables to make: {', '.join(TABLES)}", group=_EVALUATE)
    limit: int | float | None = option(
        None, "questions to answer per benchmark, or a share below 1", group=_EVALUATE
    )
    infer: dict[str, Any] = option(
        dict, "other settings of videopro infer, such as in_flight=8", group=_EVALUATE
    )
    only: tuple[str, ...] = option((), f"run only these stages: {', '.join(STAGES)}", group=_STAGES)
    start: str = option("", "skip the stages before this one", group=_STAGES)
    until: str = option("", "skip the stages after this one", group=_STAGES)
    plan: bool = option(False, "print the stages and their cost, and run nothing")
    yes: bool = option(False, "start without asking for confirmation")
    check_manifest: bool = option(
        False, "compare what is known of the benchmarks and models with the hub, and run nothing"
    )

    def __post_init__(self) -> None:
        for name in (*self.only, *filter(None, (self.start, self.until))):
            if name not in STAGES:
                raise ConfigError(f"unknown stage {name!r}; the stages are {', '.join(STAGES)}")
        if self.only and (self.start or self.until):
            raise ConfigError("--only cannot be combined with --start or --until; leave those out")
        for name in self.tables:
            if name not in TABLES:
                raise ConfigError(f"tables: unknown table {name!r}; choose from {', '.join(TABLES)}")
        check_least(self, 0, "gpus")
        check_least(self, 1, "processes")
        if self.limit is not None and not self.limit > 0:
            raise ConfigError(f"limit is {self.limit:g}; set a number of questions, or a share below 1")

    @property
    def trains_sft(self) -> bool:
        """Whether an adapter is fine-tuned here."""
        return not (self.sft_adapter or self.grpo_adapter)

    @property
    def trains_grpo(self) -> bool:
        """Whether an adapter is trained by rewards here."""
        return self.grpo != NONE and not self.grpo_adapter

    @property
    def makes_sft_rows(self) -> bool:
        """Whether rows for SFT are made here."""
        return self.trains_sft and not self.sft_data

    @property
    def makes_grpo_rows(self) -> bool:
        """Whether prompts for GRPO are made here."""
        return self.trains_grpo and not self.grpo_data

    @property
    def has_teacher(self) -> bool:
        """Whether a teacher writes programs."""
        return self.synthesis != NONE
