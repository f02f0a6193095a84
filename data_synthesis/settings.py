"""The settings of a synthesis, from flags or YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro import benchmarks
from videopro.backbones import check_key_name
from videopro.cli import setting
from videopro.data_synthesis.explore import ExploreSettings
from videopro.data_synthesis.teacher_log import Prices, TeacherBudget
from videopro.engine.cluster import ENGINE, RAY
from videopro.errors import ConfigError
from videopro.methods.planners import PromptFile, check_planner, read_prompts
from videopro.modules import ModuleSettings
from videopro.traces import REFINEMENT_KINDS, PromptKind


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig(ModuleSettings):
    """The settings of a synthesis, as flags or as YAML; those of ModuleSettings are the modules' models."""

    source: str = field(
        metadata=setting(
            "where questions come from: " + ", ".join(benchmarks.NAMES) + ", or a file of your own (.py)"
        )
    )
    teacher: str = field(
        metadata=setting("who writes programs: pocket-teacher or api:MODEL@URL (it sees no video)")
    )
    model: str = field(metadata=setting("who answers: pocket, a hub name, a folder, or server:MODEL@URL"))
    output: Path = field(metadata=setting("folder of the synthesis; resumed if it holds the same one"))
    split: str | None = field(
        default=None, metadata=setting("split of the source; unset: its training split (pocket: train)")
    )
    root: Path | None = field(
        default=None, metadata=setting("folder of the source's files; required except for pocket")
    )
    world_seed: int | None = field(
        default=None, metadata=setting("generate another pocket world from this seed")
    )
    backbone: dict[str, Any] = field(
        default_factory=dict, metadata=setting("settings of the backbone, such as dtype=bf16")
    )
    without_family: tuple[str, ...] = field(default=(), metadata=setting("families of questions to hold out"))
    limit: int | None = field(
        default=None,
        metadata=setting("number of questions to ask (whole videos, in an order drawn from seed)"),
    )
    ids: tuple[str, ...] = field(default=(), metadata=setting("ask only these questions"))
    seed: int = field(
        default=0, metadata=setting("random seed: order of questions, positions of options, programs")
    )
    programs: int = field(default=4, metadata=setting("multi-step programs per question (K)"))
    refinements: int = field(
        default=1,
        metadata=setting("refinements of each program that failed, was wrong or had low confidence"),
    )
    tau: float = field(default=0.75, metadata=setting("minimum confidence of a confident answer"))
    prompts: str | None = field(
        default=None,
        metadata=setting(
            "the prompts in the rows, as --prompts of videopro infer, for a planner that will be run with "
            "them; unset: ours"
        ),
    )
    teacher_prompts: str | None = field(
        default=None,
        metadata=setting("the prompts for an API teacher, in the same form; unset: ours, with the examples"),
    )
    always_program: bool = field(
        default=False,
        metadata=setting("add rows for --method program: a program even if a direct answer is enough"),
    )
    subtitles: Literal["listed", "none"] = field(
        default="listed", metadata=setting("subtitles for the modules: those the source lists, or none")
    )
    subtitle_track: str | None = field(default=None, metadata=setting(benchmarks.SUBTITLE_TRACK_HELP))
    temperature: float = field(default=0.7, metadata=setting("sampling temperature of an API teacher"))
    top_p: float = field(default=1.0, metadata=setting("top-p of an API teacher"))
    max_new_tokens: int = field(
        default=4096, metadata=setting("maximum length of an API teacher's reply in tokens, with thinking")
    )
    api_key_env: str | None = field(
        default=None,
        metadata=setting("variable with the key for api:MODEL@URL; unset: OPENAI_API_KEY for OpenAI only"),
    )
    concurrency: int = field(
        default=8, metadata=setting("maximum number of parallel requests to an API teacher")
    )
    videos: int | None = field(
        default=None, metadata=setting("videos in flight; unset: 4 with an API teacher, else 1")
    )
    max_parallel: int = field(
        default=8, metadata=setting("programs about a video that run in parallel", former="together")
    )
    max_requests: int | None = field(
        default=None,
        metadata=setting("maximum number of requests to an API teacher, over all commands on this folder"),
    )
    max_cost: float | None = field(
        default=None, metadata=setting("maximum cost of these requests; needs --price-in and --price-out")
    )
    price_in: float | None = field(default=None, metadata=setting("price per million prompt tokens"))
    price_out: float | None = field(default=None, metadata=setting("price per million reply tokens"))
    engine: Literal["local", "ray"] = field(default="local", metadata=ENGINE)
    ray: dict[str, Any] = field(default_factory=dict, metadata=RAY)
    exclude: tuple[str, ...] = field(
        default=(),
        metadata=setting("your own evaluation videos: folders, JSONL files, CG-Bench annotations (.json)"),
    )
    evaluation: Literal["refuse", "skip"] = field(
        default="refuse", metadata=setting("what to do with questions about videos of evaluation splits")
    )
    cg_bench_mini: Literal["evaluation", "training"] = field(
        default="evaluation", metadata=setting("what the videos of CG-Bench mini are for")
    )
    redo_errors: bool = field(
        default=False, metadata=setting("retry questions whose recorded result is an error")
    )
    assemble_only: bool = field(
        default=False, metadata=setting("only write the datasets and the card from what is recorded")
    )

    def __post_init__(self) -> None:
        # Speech recognition would bring back what the user left out.
        if self.subtitles == "none" and self.speech == "auto":
            object.__setattr__(self, "speech", "none")
        super().__post_init__()
        check_planner(self.teacher)
        check_key_name(self.api_key_env)
        if self.teacher == "self":
            raise ConfigError(
                "teacher 'self': a model does not teach itself; give pocket-teacher or api:MODEL@URL"
            )
        if self.teacher.startswith("server:"):
            raise ConfigError(
                f"teacher {self.teacher!r}: a teacher is asked without the video; give "
                f"api:{self.teacher.removeprefix('server:')}"
            )
        if self.teacher_prompts is not None and self.teacher.startswith("pocket-teacher"):
            raise ConfigError(f"teacher {self.teacher!r} reads our prompts only; leave --teacher-prompts out")
        self.row_prompts()
        self.asked_prompts()
        for name in ("programs", "concurrency", "max_parallel", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.videos is not None and self.videos < 1:
            raise ConfigError(f"videos is {self.videos}; it must be at least 1")
        if self.refinements < 0:
            raise ConfigError(f"refinements is {self.refinements}; it must be 0 or more")
        if not 0 <= self.tau <= 1:
            raise ConfigError(f"tau is {self.tau}; it must lie in 0..1")
        if self.temperature < 0:
            raise ConfigError(f"temperature is {self.temperature}; it must be 0 or more")
        if (self.price_in is None) != (self.price_out is None):
            raise ConfigError("price_in and price_out: give both, per million tokens, or neither")
        if self.source == "pocket" and self.cg_bench_mini == "training":
            raise ConfigError("cg_bench_mini: does not apply to pocket; leave it out")
        self.budget()

    def videos_in_flight(self) -> int:
        """Videos that are explored at a time; a teacher behind an API keeps them waiting."""
        return self.videos or (4 if self.teacher.startswith("api:") else 1)

    def prices(self) -> Prices | None:
        """The prices of tokens, if given."""
        if self.price_in is None or self.price_out is None:
            return None
        return Prices(self.price_in, self.price_out)

    def budget(self) -> TeacherBudget:
        """The caps. Raises ConfigError for invalid ones."""
        return TeacherBudget(self.prices(), max_requests=self.max_requests, max_cost=self.max_cost)

    def row_prompts(self) -> PromptFile | None:
        """The user's prompts for the rows; None: ours. Raises ConfigError."""
        if self.prompts is None:
            return None
        file = read_prompts(self.prompts)
        kinds: tuple[PromptKind, ...] = ("plan", *REFINEMENT_KINDS)
        file.require((*kinds, "plan_program") if self.always_program else kinds, "a row")
        file.require_api("a row")
        return file

    def asked_prompts(self) -> PromptFile | None:
        """The user's prompts for the teacher; None: ours. Raises ConfigError."""
        if self.teacher_prompts is None:
            return None
        file = read_prompts(self.teacher_prompts)
        kinds: tuple[PromptKind, ...] = ("plan_program",)
        file.require((*kinds, *REFINEMENT_KINDS) if self.refinements else kinds, "a teacher")
        return file

    def explore_settings(self) -> ExploreSettings:
        """The settings of the explorer."""
        return ExploreSettings(
            programs=self.programs,
            refinements=self.refinements,
            tau=self.tau,
            seed=self.seed,
            subtitles=self.subtitles == "listed",
            max_parallel=self.max_parallel,
            prompt_file=self.asked_prompts(),
        )
