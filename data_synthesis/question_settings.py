"""The settings of which questions become training data, and of their rows: those that a synthesis and the
prompts made with a planner share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro import benchmarks
from videopro.benchmarks import BENCHMARKS, Benchmark
from videopro.cli import check_least, option, setting
from videopro.data_synthesis.questions import QuestionSelection, load_source, select_questions
from videopro.errors import ConfigError
from videopro.methods.planners import PromptFile, read_prompts
from videopro.traces import REFINEMENT_KINDS, PromptKind
from videopro.video import NEAREST_INTACT_HELP


@dataclass(frozen=True, kw_only=True)
class QuestionSettings:
    """Which questions are asked, what must not be among them, and the rows of grpo.jsonl."""

    source: str = field(
        metadata=setting(
            "source of the questions: " + ", ".join(benchmarks.BENCHMARKS.ours()) + ", or your own file (.py)"
        )
    )
    model: str = field(metadata=setting("answerer: a hub name, a folder, server:MODEL@URL, or a plug-in"))
    output: Path = field(metadata=setting("output folder; resumed if it holds the same synthesis"))
    split: str | None = option(None, "split of the source; unset: its training split")
    root: Path | None = option(None, "source folder; required unless its videos are generated")
    world_seed: int | None = option(None, "seed of a pocket world to generate")
    backbone: dict[str, Any] = field(
        default_factory=dict, metadata=setting("backbone settings, such as dtype=bf16")
    )
    limit: int | None = option(
        None,
        "maximum questions to ask after the filters (whole videos, in an order drawn from seed)",
    )
    ids: tuple[str, ...] = option((), "ask only these questions")
    seed: int = option(0, "random seed for the order of questions, positions of options and programs")
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP)
    grpo_rows: int | None = option(
        None, "maximum rows of grpo.jsonl, evenly over kinds and over families; unset: all (paper: 10000)"
    )
    tau: float = option(0.75, "minimum confidence of a confident answer")
    prompts: str | None = option(
        None,
        "prompts in the rows, as --prompts of videopro infer, for a planner that will run with them; unset: "
        "the default prompts",
    )
    subtitles: Literal["listed", "none"] = option(
        "listed", "subtitles for the modules: the source's, or none"
    )
    subtitle_track: str | None = option(None, benchmarks.SUBTITLE_TRACK_HELP)
    exclude: tuple[str, ...] = option(
        (),
        "evaluation videos: folders, JSONL files, CG-Bench annotations (.json), or benchmarks as NAME:FOLDER "
        "or NAME/SPLIT:FOLDER, such as lvbench:data/lvbench",
    )
    evaluation: Literal["refuse", "skip"] = option(
        "refuse", "how to handle questions about videos of evaluation splits"
    )
    cg_bench_mini: Literal["questions", "videos", "training"] = option(
        "questions",
        "the part of CG-Bench mini for evaluation: its questions, its whole videos (questions about 93 % of "
        "the set), or nothing (training)",
    )
    held_out_videos: int | None = option(None, "source videos to hold out for evaluation, drawn by seed")

    def check_questions(self) -> None:
        """Raise ConfigError for invalid settings."""
        self.row_prompts()
        self.check_shares("tau")
        check_least(self, 1, "grpo_rows", "held_out_videos")
        if self.cg_bench_mini != "questions" and not BENCHMARKS[self.source].needs_root:
            raise ConfigError(f"cg_bench_mini: does not apply to {self.source}; leave it out")

    def check_shares(self, *names: str) -> None:
        """Raise ConfigError for a share that is set, and not one."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} is {value}; it must be from 0 to 1")

    @property
    def row_kinds(self) -> tuple[PromptKind, ...]:
        """The kinds of prompts that rows have."""
        return ("plan", *REFINEMENT_KINDS)

    @property
    def shows_modules(self) -> bool:
        """Whether the prompts of rows say which modules are there."""
        return False

    def row_prompts(self) -> PromptFile | None:
        """The user's prompts for the rows; None: the default prompts. Raises ConfigError."""
        if self.prompts is None:
            return None
        file = read_prompts(self.prompts)
        file.require(self.row_kinds, "a row")
        if not self.shows_modules:
            file.require_api("a row")
        return file

    def questions(self) -> tuple[Benchmark, QuestionSelection]:
        """The source as published, and its questions as they would be asked. Raises VideoProError."""
        source = load_source(
            self.source,
            split=self.split,
            root=self.root,
            world_seed=self.world_seed,
            subtitle_track=self.subtitle_track,
        )
        return source, select_questions(source, seed=self.seed)
