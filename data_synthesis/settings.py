"""The settings of a synthesis, from flags or YAML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from videopro.backbones import check_key_name
from videopro.cli import check_least, option
from videopro.data_synthesis.question_settings import QuestionSettings
from videopro.data_synthesis.questions import ModuleDrops, RowReference, Side, VideoSplit
from videopro.data_synthesis.teacher import Prices, TeacherBudget
from videopro.engine.cluster import RAY
from videopro.engine.serving import ENGINES, VLLM
from videopro.errors import ConfigError
from videopro.methods.planners import FILE, check_planner
from videopro.methods.program import REASONED, REASONED_HELP
from videopro.modules import ModuleSettings
from videopro.traces import PromptKind, ReasonedRule, ReferenceForm


@dataclass(frozen=True, kw_only=True)
class SynthesisConfig(QuestionSettings, ModuleSettings):
    """The settings of a synthesis, as flags or as YAML; those of ModuleSettings are the modules' models."""

    teacher: str | None = option(
        None,
        "teacher model: api:MODEL@URL (without the video), or a plug-in; not needed with --programs 0",
    )
    programs: int = option(
        4, "multi-step programs per question (K); 0: only native answers and the oracle mode, no teacher"
    )
    refinements: int = option(1, "refinements of each program that fails, is wrong or has low confidence")
    sft_share: float | None = option(
        None,
        "share of the videos for sft.jsonl; the others are for grpo.jsonl, so that the two share no video. "
        "Unset: every video is for both",
    )
    grpo_programs: int | None = option(
        None,
        "with sft_share, programs per question of a GRPO video, which are never refined; unset: as programs",
    )
    sft_rows: int | None = option(
        None, "maximum rows of sft.jsonl, evenly over R1 to R4 and over families; unset: all (paper: 5000)"
    )
    reasoned_confidence: ReasonedRule = option(REASONED, REASONED_HELP)
    reference: ReferenceForm = option(
        "none",
        "how prompts describe the available modules, in the rows and when a planner trained on them runs: "
        "none, signatures, compact (a line each), or full",
    )
    drop_modules: float | None = option(
        None,
        "share of the questions without one group of modules, drawn from seed, to train a planner to read "
        "the reference; unset: 0",
    )
    rename_modules: float | None = option(
        None,
        "share of the questions whose rows of sft.jsonl have drawn names for all modules, to train a planner "
        "to read names that it has not seen; unset: 0",
    )
    always_program: bool = option(
        False, "add rows for --method program: a program even where a direct answer is enough"
    )
    temperature: float = option(0.7, "sampling temperature of an API teacher")
    max_new_tokens: int = option(4096, "maximum length of an API teacher's reply in tokens, with thinking")
    api_key_env: str | None = option(
        None, "environment variable with the key for api:MODEL@URL; unset: OPENAI_API_KEY for OpenAI only"
    )
    concurrency: int = option(8, "maximum number of parallel requests to an API teacher")
    videos: int | None = option(None, "videos to explore in parallel; unset: 4 with an API teacher, else 1")
    max_requests: int | None = option(
        None, "maximum number of requests to an API teacher, over all commands on this folder"
    )
    max_cost: float | None = option(None, "maximum cost of all requests; needs --price-in and --price-out")
    price_in: float | None = option(None, "price per million prompt tokens")
    price_out: float | None = option(None, "price per million reply tokens")
    engine: Literal["local", "ray", "vllm"] = field(default="local", metadata=ENGINES)
    ray: dict[str, Any] = field(default_factory=dict, metadata=RAY)
    vllm: dict[str, Any] = field(default_factory=dict, metadata=VLLM)
    plan: bool = option(
        False,
        "only print the questions that the filters leave and the expected rows, tokens, cost and hours; "
        "nothing is loaded, asked or written",
    )
    redo_errors: bool = option(False, "retry questions recorded as errors")
    redo_changed: bool = option(False, "ask questions again whose video, subtitles or transcript changed")
    assemble_only: bool = option(False, "only write the datasets and the card, from the records")

    def __post_init__(self) -> None:
        # Speech recognition would bring back what the user left out.
        if self.subtitles == "none" and self.speech == "auto":
            object.__setattr__(self, "speech", "none")
        super().__post_init__()
        self._check_asking()
        check_key_name(self.api_key_env)
        self.check_questions()
        check_least(self, 1, "sft_rows", "concurrency", "max_new_tokens", "videos")
        if (self.price_in is None) != (self.price_out is None):
            raise ConfigError("price_in and price_out: set both, per million tokens, or neither")
        self.check_shares("sft_share")
        for name in ("drop_modules", "rename_modules"):
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise ConfigError(f"{name} is {share}; it must be above 0 and at most 1")
            if share is not None and self.reference == "none":
                raise ConfigError(
                    f"{name} needs prompts that list the available modules; pass --reference compact"
                )
        self.budget()

    def _check_asking(self) -> None:
        """Check the settings of the teacher and its programs. Raises ConfigError."""
        check_least(self, 0, "programs", "grpo_programs", "refinements", "temperature")
        if self.grpo_programs is not None and self.sft_share is None:
            raise ConfigError("grpo_programs: needs --sft-share, which splits off the videos for GRPO")
        if not self.asks_teacher:
            # Rows without programs have none to refine, and native answers are refined by programs.
            object.__setattr__(self, "refinements", 0)
            object.__setattr__(self, "teacher", None)
        if self.teacher is None:
            if self.asks_teacher:
                raise ConfigError(
                    "teacher is missing; pass api:MODEL@URL or a plug-in's name, or --programs 0 for rows "
                    "without programs"
                )
            return
        check_planner(self.teacher)
        if self.teacher == "self" or self.teacher.startswith(FILE):
            raise ConfigError(
                f"teacher {self.teacher!r}: neither the model itself nor one program for all questions can "
                "teach; pass api:MODEL@URL or a plug-in's name"
            )
        if self.teacher.startswith("server:"):
            raise ConfigError(
                f"teacher {self.teacher!r}: teachers take no video; pass "
                f"api:{self.teacher.removeprefix('server:')}"
            )

    @property
    def asks_teacher(self) -> bool:
        """Whether any question is asked with programs."""
        return bool(self.programs or self.grpo_programs)

    def videos_in_flight(self) -> int:
        """Videos explored in parallel; they wait for a teacher behind an API."""
        return self.videos or (4 if (self.teacher or "").startswith("api:") else 1)

    def prices(self) -> Prices | None:
        """The prices of tokens, if given."""
        if self.price_in is None or self.price_out is None:
            return None
        return Prices(self.price_in, self.price_out)

    def video_split(self) -> VideoSplit:
        """Which videos are for which dataset."""
        return VideoSplit(self.sft_share, self.seed)

    def budget(self) -> TeacherBudget:
        """The caps. Raises ConfigError for invalid ones."""
        return TeacherBudget(self.prices(), max_requests=self.max_requests, max_cost=self.max_cost)

    @property
    def row_kinds(self) -> tuple[PromptKind, ...]:
        """The kinds of prompts that rows have."""
        return (*super().row_kinds, "plan_program") if self.always_program else super().row_kinds

    @property
    def shows_modules(self) -> bool:
        """Whether the rows' prompts list the available modules."""
        return self.reference != "none"

    def row_reference(self) -> RowReference:
        """How the rows' prompts describe the modules."""
        return RowReference(self.reference, self.clip_times, self.rename_modules or 0.0, self.seed)

    def module_drops(self) -> ModuleDrops:
        """Which questions lack a group of modules."""
        return ModuleDrops(self.drop_modules or 0.0, self.seed)

    def effort(self, video_key: str) -> tuple[int, int]:
        """First programs of each question about a video, and refinements of each of these."""
        return self.effort_of("sft" if self.video_split().serves(video_key, "sft") else "grpo")

    def effort_of(self, side: Side) -> tuple[int, int]:
        """First programs of each question of a side, and refinements of each of these."""
        if side == "sft":
            return self.programs, self.refinements if self.programs else 0
        # A prompt for GRPO shows what is to be refined; the planner in training writes the refinement.
        return (self.programs if self.grpo_programs is None else self.grpo_programs), 0
