"""The settings of the methods that write programs, which of them contradict each other, and what a run by
programs needs of the backbone and of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from videopro.backbones import MODELS, BackboneConfig, Sampling, expected_model, model_needs, read_spec
from videopro.cli import Need, check_least, did_you_mean, option
from videopro.errors import ConfigError
from videopro.executor import DEFAULT_LIMITS, sandbox_problem
from videopro.methods.base import WritingSettings
from videopro.methods.planners import (
    FILE,
    PAPER_TEMPERATURE,
    PLAN_SAMPLING,
    check_answerer,
    check_planner,
    own_planner,
    read_program,
)
from videopro.methods.program.deciding import REASONED, REASONED_HELP
from videopro.methods.program.reasoner import ReasoningSettings
from videopro.methods.program.rounds import RefinementShows
from videopro.modules import PAPER_FRAMES, ModuleSettings, module_needs, paper_notes
from videopro.modules.calls import REMOVABLE
from videopro.traces import AnswerRule, FinalRule, ReasonedRule

FINAL_HELP = (
    "final answer: last (of the last program, even if it failed), last-answered (the latest answer), or best "
    "(the most confident); with calls or seconds, last is last-answered"
)
PLANNER_HELP = (
    "planner that writes programs: self (the backbone), server:MODEL@URL (sees the video), "
    "api:MODEL@URL (sees the text only), file:PROGRAM.py (your own program), or a plug-in (videopro models)"
)
PLANNER_FRAMES_HELP = (
    "frames in the planner's prompt, 0 for none; unset: the backbone's budget; for server:MODEL@URL, as in "
    "its record, else 64"
)
PROMPTS_HELP = (
    "prompts of a planner not trained on the default prompts: a YAML file with plan, plan_program, bug_fix, "
    "native_refinement, program_refinement and api, or a folder with a .txt file of each"
)
ANSWERER_HELP = (
    "model that answers inside programs: a name or server:MODEL@URL; unset: the model with its adapter off, "
    "or the base that a merged planner records"
)


@dataclass(frozen=True)
class ProgramSettings(ModuleSettings, WritingSettings):
    """Settings of every method that writes programs; those of ModuleSettings choose the models behind the
    modules."""

    planner: str = option("self", PLANNER_HELP, answers=True)
    planner_frames: int | None = option(None, PLANNER_FRAMES_HELP, client="frames", answers=True)
    # These three a run finds out by itself: they are no settings, and part of its key.
    planner_pixels: int | None = None
    """Of the frames for server:MODEL@URL."""
    planner_weights: dict[str, str] | None = None
    """What that server says of its weights."""
    planner_program: str | None = None
    """The text of file:PROGRAM.py."""
    planner_prompt: Literal["auto", "short", "full"] = option(
        "auto",
        "full: with the API reference and examples; short: without, for a planner trained so; auto: short if "
        "the backbone has an adapter or is a merged planner; for server:MODEL@URL, as in its record",
        answers=True,
    )
    reference: Literal["auto", "none", "signatures", "compact", "full"] = option(
        "auto",
        "how prompts describe the available modules: none, signatures, compact (a line each), or full; auto: "
        "as the planner was trained, else full",
        answers=True,
    )
    prompts: dict[str, str] | str | None = option(None, PROMPTS_HELP, answers=True)
    temperature: float | None = option(
        None,
        "sampling temperature of the planner; 0: greedy; unset: 0, or the paper's 0.7 with preset paper",
        client="any",
        answers=True,
    )
    top_p: float = option(1.0, "top-p of the planner", client="any", answers=True)
    answerer: str | None = option(None, ANSWERER_HELP, answers=True)
    answer_adapter: Literal["off", "on"] = option(
        "off", "on: modules answer with the planner's adapter on (a merged planner: itself)", answers=True
    )
    final: FinalRule = option("last", FINAL_HELP, client="any", answers=True)
    reasoned_confidence: ReasonedRule = option(REASONED, REASONED_HELP, client="any", answers=True)
    without: tuple[str, ...] = option(
        (), f"groups of modules to leave out: {', '.join(REMOVABLE)} (Table 3)", answers=True
    )
    module_seconds: float = option(
        DEFAULT_LIMITS.module_seconds,
        "total time limit of the module calls of one program, in seconds",
        answers=True,
    )

    def __post_init__(self) -> None:
        if self.subtitles == "none" and self.speech == "auto":
            object.__setattr__(self, "speech", "none")
        if self.temperature is None:
            paper = self.preset == "paper"
            object.__setattr__(self, "temperature", PAPER_TEMPERATURE if paper else PLAN_SAMPLING.temperature)
        ModuleSettings.__post_init__(self)
        WritingSettings.__post_init__(self)
        if self.has_budget and self.final == "last":
            # What a refinement lost, no call may be left to ask for.
            object.__setattr__(self, "final", "last-answered")
        check_planner(self.planner)
        if self.planner.startswith(FILE) and self.planner_program is None:
            object.__setattr__(self, "planner_program", read_program(self.planner))
        check_least(self, 0, "planner_frames")
        is_served = self.planner.startswith("server:")
        if self.planner_frames and self.planner != "self" and not is_served:
            raise ConfigError(
                f"planner_frames is {self.planner_frames}, but planner {self.planner!r} does not see the "
                "video; leave it out"
            )
        own = own_planner(self.planner)
        if self.reference not in ("auto", "full") and own is not None and not own.reads_any_prompt:
            raise ConfigError(
                f"planner {self.planner!r} reads the whole reference; leave reference={self.reference} out"
            )
        if self.prompts is not None:
            self._check_prompts()
        if self.answerer is not None:
            check_answerer(self.answerer)
            if self.answer_adapter == "on":
                raise ConfigError(
                    f"answerer is {self.answerer!r}, but answer_adapter=on lets the planner answer; leave "
                    "one of them out"
                )
        for group in self.without:
            if group not in REMOVABLE:
                raise ConfigError(
                    f"without: unknown group of modules {group!r}; {did_you_mean(group, REMOVABLE)}"
                )
        if not self.module_seconds > 0:
            raise ConfigError(f"module_seconds is {self.module_seconds:g}; it must be above 0")
        self.sampling()
        self.reasoning()

    def _check_prompts(self) -> None:
        """Raise ConfigError if other settings contradict the prompts of a file."""
        own = own_planner(self.planner)
        if own is not None and not own.reads_any_prompt:
            raise ConfigError(f"planner {self.planner!r} reads default prompts only; leave --prompts out")
        if self.planner.startswith(FILE):
            raise ConfigError(f"planner {self.planner!r} reads no prompts; leave --prompts out")
        if self.planner_prompt != "auto":
            raise ConfigError(
                f"planner_prompt is {self.planner_prompt!r}, a form of the default prompts; leave it or "
                "--prompts out"
            )

    def sampling(self) -> Sampling:
        """How the planner samples. Raises ConfigError."""
        return Sampling(self.max_new_tokens, self.temperature or 0.0, self.top_p)

    def reasoning(self) -> ReasoningSettings:
        """These settings for the `Reasoner`. Raises ConfigError."""
        return ReasoningSettings(
            max_rounds=0,
            rule=AnswerRule(self.final, self.fallback),
            max_parallel=self.max_parallel,
            reasoned=self.reasoned_confidence,
            calls=self.calls,
            seconds=self.seconds,
        )


@dataclass(frozen=True)
class VideoProSettings(ProgramSettings):
    """Settings of the method with refinement."""

    tau: float = option(0.75, "refine answers with a confidence below this", client="less", answers=True)
    max_rounds: int = option(1, "maximum number of refinements per question", client="less", answers=True)
    refine_below: float | None = option(
        None, "store refinements up to this confidence, to report other tau; unset: tau", answers=True
    )
    refinement_shows: RefinementShows = option(
        "program",
        "content of the prompt to refine a low-confidence answer: program, result (program and result), or "
        "log (program, result and log)",
        answers=True,
    )

    def __post_init__(self) -> None:
        if self.planner.startswith(FILE):
            # 1 is the default, so it says nothing of what the user wants.
            if self.max_rounds > 1 or self.refine_below is not None:
                raise ConfigError(
                    f"planner {self.planner!r} cannot refine its program; leave max_rounds and "
                    "refine_below out"
                )
            object.__setattr__(self, "max_rounds", 0)
        super().__post_init__()

    def _check_prompts(self) -> None:
        super()._check_prompts()
        if self.refinement_shows != "program":
            raise ConfigError(
                f"refinement_shows is {self.refinement_shows!r}, but the slots of --prompts decide what a "
                "refinement shows; leave it out"
            )

    def reasoning(self) -> ReasoningSettings:
        return replace(
            super().reasoning(),
            tau=self.tau,
            max_rounds=self.max_rounds,
            refine_below=self.refine_below,
            shows=self.refinement_shows,
        )


def adapted_backbone(
    settings: ProgramSettings, model: str, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the backbone, with the frames of a preset, and with the adapter that a plug-in's model
    brings for planning if it would have to write programs by itself, which it was never taught
    (`adapter=null` leaves it unchanged); and what to tell the user."""
    backbone, notes = paper_backbone(settings, given)
    planner = MODELS[model].planner if model in MODELS else ""
    if settings.planner == "self" and "adapter" not in given and planner:
        note = (
            f"planner: the shipped adapter {planner} (the {model} model itself cannot write programs; "
            "others: --backbone adapter=FOLDER, --planner NAME)"
        )
        return {**backbone, "adapter": planner}, (*notes, note)
    return backbone, notes


def paper_backbone(
    settings: ModuleSettings, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the backbone that answers inside programs, with the frames of the preset "paper" if it
    is chosen; and what to tell the user of that preset."""
    if settings.preset != "paper":
        return dict(given), ()
    return {"frames": PAPER_FRAMES, **given}, tuple(paper_notes(asdict(settings)))


def program_needs(
    settings: ModuleSettings,
    model: BackboneConfig,
    *,
    answerer: str | None = None,
    api_key_env: str | None = None,
    flag: str,
) -> list[Need]:
    """Who answers inside the programs (None: `model`, which others check), the models behind the modules, and
    the sandbox. `api_key_env`: the variable with the key of the answerer's server; `flag`: how the command at
    hand leaves out a module's model, as in `ModuleModels`."""
    needs, answering = list[Need](), model
    if answerer is not None:
        answering = read_spec(answerer)
        if answering.kind == "server":
            answering = answering.but(api_key_env=api_key_env)
        needs += model_needs(answering, "answerer")
    needs += module_needs(settings, *expected_model(answering), flag=flag)
    return [*needs, Need("sandbox", problem=sandbox_problem())]
