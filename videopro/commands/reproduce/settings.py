"""The settings of `videopro reproduce`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from videopro.cli import check_least, option, setting
from videopro.commands.reproduce.stages import STAGES
from videopro.errors import ConfigError

NONE = "none"
"""In place of a config: leave that out."""

TABLES = ("1", "2", "4", "5", "figures")
ABLATIONS = ("lvbench", "videomme")
"""The benchmarks of Tables 2 and 4."""


def given(**settings: Any) -> dict[str, Any]:
    """Those of these settings that are set."""
    return {name: value for name, value in settings.items() if value not in (None, "", {})}


# They make fields, as `option` does.
# ruff: noqa: RUF009
_files, _data, _train, _evaluate, _which = (
    partial(option, group=group)
    for group in ("Files", "Training data", "Training", "Evaluation", "Which stages")
)


@dataclass(frozen=True)
class ReproduceConfig:
    """The settings of a reproduction, as flags or as YAML."""

    model: str = field(metadata=setting("the backbone: a hub name, a folder, or a plug-in", group="Training"))
    output: Path = field(metadata=setting("folder for all outputs", group="Files"))
    data: Path = _files(Path("data"), "folder with one subfolder per benchmark, such as data/cg_bench")
    remove_archives: bool = _files(False, "delete each archive when its files are unpacked, for less disk")
    gpus: int | None = _train(None, "GPUs to use; unset: all on this machine")
    processes: int | None = _train(None, "processes that train and answer; unset: one per GPU, or one")
    backbone: dict[str, Any] = _train(dict, "settings of the backbone for inference, such as dtype=bf16")
    modules: dict[str, Any] = _train(dict, "module models, such as encoder=languagebind")
    source: str = _data("cg_bench", "benchmark whose questions are used for training")
    synthesis: str = _data("cg_bench", "config of videopro synthesize: a name or a file; none: no teacher")
    synthesize: dict[str, Any] = _data(dict, "settings of videopro synthesize that override the config")
    sft_data: str = _data("", "SFT rows made elsewhere, such as the release's train_sft.jsonl")
    grpo_data: str = _data("", "GRPO rows made elsewhere; unset: rows made here")
    grpo_prompts: Literal["teacher", "planner"] = _data(
        "teacher", "prompts for GRPO: from the synthesis, or from questions and failures of the SFT planner"
    )
    sft: str = _train("qwen3vl_8b", "config of videopro sft: a name or a file")
    sft_settings: dict[str, Any] = _train(dict, "settings of videopro sft that override the config")
    sft_adapter: str = _train("", "SFT adapter made elsewhere: a folder or hub name")
    grpo: str = _train("qwen3vl_8b", "config of videopro grpo: a name or a file; none: only SFT")
    grpo_settings: dict[str, Any] = _train(dict, "settings of videopro grpo that override the config")
    grpo_adapter: str = _train("", "GRPO adapter made elsewhere: a folder or hub name")
    accelerate: str = _train("", "config in configs/accelerate, such as zero2; unset: by the number of GPUs")
    merge: bool = _train(False, "merge the last adapter into a plain checkpoint, to serve or publish")
    benchmarks: tuple[str, ...] = _evaluate(("videopro",), "those of Table 1; videopro: the paper's four")
    tables: tuple[str, ...] = _evaluate(TABLES, f"tables to make: {', '.join(TABLES)}")
    limit: int | float | None = _evaluate(None, "questions to answer per benchmark, or a share below 1")
    infer: dict[str, Any] = _evaluate(dict, "other settings of videopro infer, such as in_flight=8")
    only: tuple[str, ...] = _which((), f"run only these stages: {', '.join(STAGES)}")
    skip: tuple[str, ...] = _which((), "leave out these stages")
    plan: bool = option(False, "print the stages and their cost, and run nothing")
    pilot: bool = option(False, "run a few rows through every stage, and print what all of them will take")
    pilot_rows: int = option(20, "rows of the pilot in each stage")
    yes: bool = option(False, "start without asking for confirmation")
    check_manifest: bool = option(False, "compare what is known of the files with the hub, and run nothing")

    def __post_init__(self) -> None:
        named = {"stage": ((*self.only, *self.skip), STAGES), "table": (self.tables, TABLES)}
        for kind, (names, known) in named.items():
            for name in names:
                if name not in known:
                    raise ConfigError(f"unknown {kind} {name!r}; the {kind}s are {', '.join(known)}")
        check_least(self, 0, "gpus")
        check_least(self, 1, "processes", "pilot_rows")
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
    def makers(self) -> dict[str, str]:
        """The stage that makes the rows of each training; "" if they are made elsewhere, or not needed."""
        sft = "rejection" if self.synthesis == NONE else "synthesize"
        grpo = "synthesize" if self.grpo_prompts == "teacher" else "prompts"
        return {
            "sft": sft if self.trains_sft and not self.sft_data else "",
            "grpo": grpo if self.trains_grpo and not self.grpo_data else "",
        }
