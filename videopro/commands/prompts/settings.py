"""The settings of `videopro prompts`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro import benchmarks
from videopro.cli import CommandLine, option, setting
from videopro.commands.infer_settings import WorkSettings
from videopro.data_synthesis.question_settings import QuestionSettings
from videopro.errors import ConfigError
from videopro.runs import RUN_FIELDS

_OF_QUESTIONS = ("source", "adapter", "root", "split", "limit", "ids", "sft_data")
"""Settings that select the questions; with --rows, the rows do."""


@dataclass(frozen=True, kw_only=True)
class PromptsConfig(QuestionSettings, WorkSettings):
    """The settings of `videopro prompts`, as flags or as YAML."""

    source: str = option(
        "",
        "where questions come from: " + ", ".join(benchmarks.BENCHMARKS.ours()) + ", or your own file (.py)",
    )
    rows: Path | None = option(
        None,
        "instead of --source: GRPO rows without oracle modes, such as the release's train_grpo.jsonl; "
        "only the missing modes are filled in",
    )
    adapter: str = option("", "planner after SFT: a folder or hub name; unset: the model writes programs")
    sft_data: Path | None = option(
        None,
        "rows that the planner was fine-tuned on, whose videos are left out; unset: those in the "
        "adapter's record",
    )
    sft_videos: Literal["skip", "keep"] = option(
        "skip", "what to do with questions about videos the planner was fine-tuned on"
    )
    modules: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting(
            "module models and other options of the planner, as for videopro infer --method adaptive, "
            "such as encoder=languagebind, preset=paper or temperature=0.7"
        ),
    )

    def __post_init__(self) -> None:
        if (self.rows is None) == (not self.source):
            raise ConfigError("pass --source for prompts from questions, or --rows for rows to fill in")
        if self.rows is not None:
            for name in _OF_QUESTIONS:
                if getattr(self, name) not in ("", None, (), 0):
                    raise ConfigError(f"--{name.replace('_', '-')}: has no effect with --rows; leave it out")
        self.check_questions()

    @property
    def planner_options(self) -> dict[str, Any]:
        """The options of the planner's method."""
        track = {"subtitles": self.subtitles} if self.subtitles != "listed" else {}
        prompts = {} if self.prompts is None else {"prompts": self.prompts}
        # What the rows are made for goes before what the modules say of it.
        return {**self.modules, **track, **prompts}


PROMPTS = CommandLine("prompts", PromptsConfig, ignore=RUN_FIELDS)
