"""The settings of a synthesis, from flags or YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro import benchmarks
from videopro.backbones import check_key_name
from videopro.cli import setting
from videopro.data_synthesis.balance import GRPO_KINDS, SFT_KINDS, RowLimits
from videopro.data_synthesis.explore import ExploreSettings
from videopro.data_synthesis.split import VideoSplit
from videopro.data_synthesis.teacher_log import Prices, TeacherBudget
from videopro.engine.cluster import ENGINE, RAY
from videopro.errors import ConfigError
from videopro.methods.planners import FILE, PromptFile, check_planner, read_prompts
from videopro.methods.program import REASONED, REASONED_HELP
from videopro.modules import ModuleSettings
from videopro.traces import REFINEMENT_KINDS, PromptKind, ReasonedRule


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig(ModuleSettings):
    """The settings of a synthesis, as flags or as YAML; those of ModuleSettings are the modules' models."""

    source: str = field(
        metadata=setting(
            "where questions come from: " + ", ".join(benchmarks.NAMES) + ", or a file of your own (.py)"
        )
    )
    teacher: str | None = field(
        default=None,
        metadata=setting(
            "who writes programs: pocket-teacher or api:MODEL@URL (it sees no video); not needed with "
            "--programs 0"
        ),
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
        metadata=setting(
            "number of questions to ask, of those that the filters leave (whole videos, in an order drawn "
            "from seed)"
        ),
    )
    offset: int = field(default=0, metadata=setting("leave out the first questions of that order"))
    ids: tuple[str, ...] = field(default=(), metadata=setting("ask only these questions"))
    seed: int = field(
        default=0, metadata=setting("random seed: order of questions, positions of options, programs")
    )
    programs: int = field(
        default=4,
        metadata=setting(
            "multi-step programs per question (K); 0: only native answers and the oracle mode, no teacher"
        ),
    )
    refinements: int = field(
        default=1,
        metadata=setting("refinements of each program that failed, was wrong or had low confidence"),
    )
    sft_share: float | None = field(
        default=None,
        metadata=setting(
            "share of the videos that are for sft.jsonl; the others are for grpo.jsonl, so that the two "
            "share no video. Unset: every video is for both"
        ),
    )
    grpo_programs: int | None = field(
        default=None,
        metadata=setting(
            "with sft_share: programs per question of a video for GRPO, which are never refined; unset: as "
            "programs"
        ),
    )
    sft_rows: int | None = field(
        default=None,
        metadata=setting(
            "rows of sft.jsonl at most, evenly over R1 to R4 and over families; unset: all (paper: 5000)"
        ),
    )
    grpo_rows: int | None = field(
        default=None,
        metadata=setting(
            "rows of grpo.jsonl at most, evenly over kinds and over families; unset: all (paper: 10000)"
        ),
    )
    sft_caps: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting(
            "rows of sft.jsonl at most by kind, rule or mode, such as native=1500 R4=2000 mode_program=3000"
        ),
    )
    grpo_caps: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting("the same of grpo.jsonl, such as plan=6000 native_refinement=3000 mode_native=2000"),
    )
    tau: float = field(default=0.75, metadata=setting("minimum confidence of a confident answer"))
    reasoned_confidence: ReasonedRule | None = field(
        default=None,
        metadata=setting(f"{REASONED_HELP}; unset: as the folder began, else {REASONED}"),
    )
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
        metadata=setting(
            "videos that are for evaluation: folders, JSONL files, CG-Bench annotations (.json), or "
            "benchmarks as NAME:FOLDER or NAME/SPLIT:FOLDER, such as lvbench:data/lvbench"
        ),
    )
    evaluation: Literal["refuse", "skip"] = field(
        default="refuse", metadata=setting("what to do with questions about videos of evaluation splits")
    )
    cg_bench_mini: Literal["questions", "videos", "training"] = field(
        default="questions",
        metadata=setting(
            "what of CG-Bench mini is for evaluation: its questions, its whole videos (questions about 93 % "
            "of the set), or nothing (training)"
        ),
    )
    held_out_videos: int | None = field(
        default=None,
        metadata=setting("number of the source's videos to set aside for evaluation, drawn by seed"),
    )
    plan: bool = field(
        default=False,
        metadata=setting(
            "only show what the filters leave, and what rows, tokens, cost and hours to expect; nothing is "
            "loaded, asked or written"
        ),
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
        self._check_asking()
        check_key_name(self.api_key_env)
        self.limits_sft().check("sft", SFT_KINDS)
        self.limits_grpo().check("grpo", GRPO_KINDS)
        self.row_prompts()
        self.asked_prompts()
        for name in ("concurrency", "max_parallel", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.videos is not None and self.videos < 1:
            raise ConfigError(f"videos is {self.videos}; it must be at least 1")
        if not 0 <= self.tau <= 1:
            raise ConfigError(f"tau is {self.tau}; it must lie in 0..1")
        if self.temperature < 0:
            raise ConfigError(f"temperature is {self.temperature}; it must be 0 or more")
        if (self.price_in is None) != (self.price_out is None):
            raise ConfigError("price_in and price_out: give both, per million tokens, or neither")
        if self.source == "pocket" and self.cg_bench_mini != "questions":
            raise ConfigError("cg_bench_mini: does not apply to pocket; leave it out")
        if self.held_out_videos is not None and self.held_out_videos < 1:
            raise ConfigError(f"held_out_videos is {self.held_out_videos}; it must be at least 1")
        if self.sft_share is not None and not 0 <= self.sft_share <= 1:
            raise ConfigError(f"sft_share is {self.sft_share}; it must lie in 0..1")
        self.budget()

    def _check_asking(self) -> None:
        """Who is asked for programs, and for how many. Raises ConfigError."""
        for name in ("programs", "grpo_programs", "refinements"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} is {value}; it must be 0 or more")
        if self.grpo_programs is not None and self.sft_share is None:
            raise ConfigError("grpo_programs: needs --sft-share, which says which videos are for GRPO")
        if not self.asks_teacher:
            # Rows without programs have none to refine, and native answers are refined by programs.
            object.__setattr__(self, "refinements", 0)
            object.__setattr__(self, "teacher", None)
        if self.teacher is None:
            if self.asks_teacher:
                raise ConfigError(
                    "teacher is missing: who writes programs; give pocket-teacher or api:MODEL@URL, or "
                    "--programs 0 for rows without programs"
                )
            return
        check_planner(self.teacher)
        if self.teacher == "self":
            raise ConfigError(
                "teacher 'self': a model does not teach itself; give pocket-teacher or api:MODEL@URL"
            )
        if self.teacher.startswith(FILE):
            raise ConfigError(
                f"teacher {self.teacher!r}: one program for all questions teaches nothing; give "
                "pocket-teacher or api:MODEL@URL"
            )
        if self.teacher.startswith("server:"):
            raise ConfigError(
                f"teacher {self.teacher!r}: a teacher is asked without the video; give "
                f"api:{self.teacher.removeprefix('server:')}"
            )
        if self.teacher_prompts is not None and self.teacher.startswith("pocket-teacher"):
            raise ConfigError(f"teacher {self.teacher!r} reads our prompts only; leave --teacher-prompts out")

    @property
    def asks_teacher(self) -> bool:
        """Whether any question is asked with programs."""
        return bool(self.programs or self.grpo_programs)

    def videos_in_flight(self) -> int:
        """Videos that are explored at a time; a teacher behind an API keeps them waiting."""
        return self.videos or (4 if (self.teacher or "").startswith("api:") else 1)

    def prices(self) -> Prices | None:
        """The prices of tokens, if given."""
        if self.price_in is None or self.price_out is None:
            return None
        return Prices(self.price_in, self.price_out)

    def video_split(self) -> VideoSplit:
        """Which videos are for which dataset."""
        return VideoSplit(self.sft_share, self.seed)

    def limits_sft(self) -> RowLimits:
        """The limits of sft.jsonl."""
        return RowLimits(self.sft_rows, self.sft_caps)

    def limits_grpo(self) -> RowLimits:
        """The limits of grpo.jsonl."""
        return RowLimits(self.grpo_rows, self.grpo_caps)

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
            grpo_programs=self.grpo_programs,
            split=self.video_split(),
            tau=self.tau,
            seed=self.seed,
            subtitles=self.subtitles == "listed",
            max_parallel=self.max_parallel,
            prompt_file=self.asked_prompts(),
            reasoned=self.reasoned_confidence or REASONED,
        )
