"""Methods that answer by programs: `program` always takes several steps, `adaptive` chooses, `videopro`
refines.

They differ only in the settings of `videopro.reasoning.Reasoner`. Planner and models are loaded for the first
question and kept for the whole process; no state is kept between questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from videopro.backbones import Backbone, Sampling, Visual, check_alive, read_spec
from videopro.backbones.wrappers import BatchingBackbone, MeteredBackbone, ThreadMeter
from videopro.benchmarks import Item
from videopro.errors import QUESTION_ERRORS, BackboneError, ConfigError
from videopro.methods.answerer import answerer_identity, load_answerer
from videopro.methods.base import Method, MethodContext
from videopro.modules import ModuleModels, ModuleSettings, VideoContext, is_pocket
from videopro.modules.calls import REMOVABLE
from videopro.modules.search import prepare_index
from videopro.planners import (
    REFINEMENT_KINDS,
    Planner,
    PromptFile,
    PromptKind,
    check_planner,
    load_planner,
    read_prompts,
    teacher_of,
)
from videopro.pocket import PLANNERS
from videopro.reasoning import Reasoner, ReasoningSettings, ReasoningTask, RefinementShows
from videopro.settings import did_you_mean, setting
from videopro.traces import AnswerRule, Cost, FallbackRule, FinalRule, Preparation, Result, failed_result
from videopro.video import uniform_times

FINAL_HELP = (
    "which answer counts: last (of the last program, even if it failed), last-answered (the latest answer), "
    "or best (the most confident)"
)
FALLBACK_HELP = "fallback if the programs give no answer: none, or native (ask the model directly)"
PLANNER_HELP = (
    "planner that writes programs: self (the backbone), server:MODEL@URL (sees the video), api:MODEL or "
    "api:MODEL@URL (sees the text only), pocket-teacher"
)
PLANNER_FRAMES_HELP = (
    "frames in the planner's prompt, 0 for none; unset: the backbone's budget, or 64 for server:MODEL@URL"
)
PROMPTS_HELP = (
    "the planner's prompts, if it was trained on other ones than ours: a YAML file with plan, plan_program, "
    "bug_fix, native_refinement, program_refinement and api, or a folder with a .txt file of each"
)
ANSWERER_HELP = (
    "the model that answers inside programs: a name or server:MODEL@URL; unset: the model with its adapter "
    "off, or the base that a merged planner records"
)


@dataclass(frozen=True)
class ProgramSettings(ModuleSettings):
    """Settings of every method that writes programs; those of ModuleSettings choose the models behind the
    modules."""

    planner: str = field(
        default="self",
        metadata=setting(PLANNER_HELP),
    )
    planner_frames: int | None = field(default=None, metadata=setting(PLANNER_FRAMES_HELP))
    planner_pixels: int | None = field(
        default=None,
        metadata=setting("pixels of a frame in the prompt of server:MODEL@URL; unset: 50,176"),
    )
    planner_prompt: Literal["auto", "short", "full"] = field(
        default="auto",
        metadata=setting(
            "full: with the API reference and examples; short: without, for a planner trained on that; auto: "
            "short if the backbone has an adapter or is a merged planner"
        ),
    )
    prompts: dict[str, str] | str | None = field(default=None, metadata=setting(PROMPTS_HELP))
    temperature: float = field(
        default=0.7, metadata=setting("sampling temperature of the planner; 0: greedy")
    )
    top_p: float = field(default=1.0, metadata=setting("top-p of the planner's sampling"))
    max_new_tokens: int = field(default=1024, metadata=setting("maximum tokens of a planner's reply"))
    api_key_env: str | None = field(
        default=None,
        metadata=setting(
            "variable with the key of the planner's or answerer's server; unset: OPENAI_API_KEY, for OpenAI "
            "only"
        ),
    )
    subtitles: Literal["listed", "none"] = field(
        default="listed", metadata=setting("subtitles for the modules: those the benchmark lists, or none")
    )
    answerer: str | None = field(default=None, metadata=setting(ANSWERER_HELP))
    answer_adapter: Literal["off", "on"] = field(
        default="off",
        metadata=setting("on: modules answer with the planner's adapter on (a merged planner: itself)"),
    )
    final: FinalRule = field(default="last", metadata=setting(FINAL_HELP))
    fallback: FallbackRule = field(default="none", metadata=setting(FALLBACK_HELP))
    without: tuple[str, ...] = field(
        default=(),
        metadata=setting(f"groups of modules to leave out: {', '.join(REMOVABLE)} (Table 3)"),
    )
    max_parallel: int = field(
        default=8, metadata=setting("maximum questions of a video that run in parallel", former="together")
    )

    def __post_init__(self) -> None:
        check_planner(self.planner)
        if self.planner_frames is not None and self.planner_frames < 0:
            raise ConfigError(f"planner_frames is {self.planner_frames}; it must be 0 or more")
        is_served = self.planner.startswith("server:")
        if self.planner_frames and self.planner != "self" and not is_served:
            raise ConfigError(
                f"planner_frames is {self.planner_frames}, but planner {self.planner!r} does not see the "
                "video; leave it out"
            )
        if self.planner_pixels is not None and (self.planner_pixels < 1 or not is_served):
            raise ConfigError(
                f"planner_pixels is {self.planner_pixels}; it must be at least 1, and is for planner "
                "server:MODEL@URL only (of the backbone: --backbone pixels=N)"
            )
        if is_served and self.planner_prompt == "auto" and self.prompts is None:
            raise ConfigError(
                f"planner {self.planner!r}: a server does not tell what its model was trained on; give "
                "--options planner_prompt=short if on our prompts, --prompts FILE if on others, else "
                "planner_prompt=full"
            )
        if self.prompts is not None:
            self._check_prompts()
        if self.answerer is not None:
            read_spec(self.answerer)
            if self.answer_adapter == "on":
                raise ConfigError(
                    f"answerer is {self.answerer!r}, and answer_adapter=on lets the planner answer; leave "
                    "one of them out"
                )
        for group in self.without:
            if group not in REMOVABLE:
                raise ConfigError(
                    f"without: unknown group of modules {group!r}; {did_you_mean(group, REMOVABLE)}"
                )
        self.sampling()
        self.reasoning()

    def _check_prompts(self) -> None:
        """Raise ConfigError if other settings contradict the prompts of a file."""
        if self.planner.startswith("pocket-teacher"):
            raise ConfigError(f"planner {self.planner!r} reads our prompts only; leave --prompts out")
        if self.planner_prompt != "auto":
            raise ConfigError(
                f"planner_prompt is {self.planner_prompt!r}, which is a form of our prompts; leave it or "
                "--prompts out"
            )

    def sampling(self) -> Sampling:
        """How the planner samples. Raises ConfigError."""
        return Sampling(self.max_new_tokens, self.temperature, self.top_p)

    def reasoning(self) -> ReasoningSettings:
        """These settings for the `Reasoner`. Raises ConfigError."""
        return ReasoningSettings(max_rounds=0, rule=self.rule, max_parallel=self.max_parallel)

    @property
    def rule(self) -> AnswerRule:
        """Which answer counts."""
        return AnswerRule(self.final, self.fallback)


@dataclass(frozen=True)
class VideoProSettings(ProgramSettings):
    """Settings of the method with refinement."""

    tau: float = field(default=0.75, metadata=setting("refine answers with a confidence below this"))
    max_rounds: int = field(default=1, metadata=setting("maximum number of refinements per question"))
    refine_below: float | None = field(
        default=None, metadata=setting("store refinements up to this confidence, for other tau; unset: tau")
    )
    refinement_shows: RefinementShows = field(
        default="program",
        metadata=setting(
            "what the prompt for refining a low-confidence answer shows: program, result (program and "
            "result), or log (program, result and log)"
        ),
    )

    def _check_prompts(self) -> None:
        super()._check_prompts()
        if self.refinement_shows != "program":
            raise ConfigError(
                f"refinement_shows is {self.refinement_shows!r}, but the slots of the --prompts say what a "
                "refinement shows; leave it out"
            )

    def reasoning(self) -> ReasoningSettings:
        return ReasoningSettings(
            tau=self.tau,
            max_rounds=self.max_rounds,
            refine_below=self.refine_below,
            rule=self.rule,
            shows=self.refinement_shows,
            max_parallel=self.max_parallel,
        )


@dataclass(frozen=True)
class _Loaded:
    """What a method needs besides its settings."""

    backbone: Backbone
    """The run's own."""
    planner: Planner
    answerer: Backbone
    """Answers inside programs."""
    models: ModuleModels
    prompt_file: PromptFile | None
    """The user's prompts, of the settings or recorded by the planner."""


class BaseProgramMethod(Method):
    """The common base of the three methods."""

    adaptive: ClassVar[bool]
    settings: ProgramSettings

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._loaded: _Loaded | None = None
        self._prompt_file: PromptFile | None = None
        if settings.prompts is not None:
            self._prompt_file = self._checked(read_prompts(settings.prompts))
            self.prompt_texts = self._prompt_file.texts

    def _checked(self, file: PromptFile) -> PromptFile:
        """The file, if it has the prompts that this method asks with. Raises ConfigError."""
        kinds: tuple[PromptKind, ...] = ("plan" if self.adaptive else "plan_program",)
        if self.settings.reasoning().max_rounds > 0:
            kinds += REFINEMENT_KINDS
        file.require(kinds, f"method {self.name}")
        return file

    def identity(self) -> dict[str, Any]:
        facts = super().identity()
        # Neither parallelism nor the API key changes an answer.
        del facts["max_parallel"]
        del facts["api_key_env"]
        # Not called "final" as in older runs, where "last" meant the latest answer: resuming those is
        # refused.
        final = facts.pop("final")
        if self.settings.reasoning().max_rounds > 0:
            facts["final_answer"] = final
        # Left out if empty, so that older runs keep their keys.
        without = facts.pop("without")
        if without:
            facts["without"] = sorted(set(without))
        if self.settings.planner.startswith("server:"):
            # A server's address changes no answer.
            facts["planner"] = answerer_identity(self.settings.planner)["model"]
        # The texts, and not where they were read: a run can be resumed and viewed without the file.
        del facts["prompts"]
        if self._prompt_file is not None:
            facts["prompts"] = dict(self._prompt_file.texts)
        for name, default in (("planner_pixels", None), ("clip_times", "video")):
            if facts[name] == default:
                del facts[name]
        answerer = facts.pop("answerer")
        if answerer is not None:
            facts["answerer"] = answerer_identity(answerer)
        if self.settings.planner.startswith("pocket-teacher"):
            facts["teacher"] = teacher_of(self.settings.planner).identity()
        return facts

    def backbone_settings(self, model: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """With the shipped planner if the pocket model would have to write programs by itself, which it was
        never taught. `adapter=null` keeps it as it is."""
        if self.settings.planner != "self" or "adapter" in given or model != "pocket":
            return dict(given)
        return {**given, "adapter": PLANNERS[0]}

    def backbone_note(self, model: str, given: Mapping[str, Any]) -> str:
        added = self.backbone_settings(model, given).keys() - given.keys()
        if not added:
            return ""
        return (
            f"planner: the shipped adapter {PLANNERS[0]} (the pocket model itself cannot write programs; "
            "others: --backbone adapter=FOLDER, --planner pocket-teacher)"
        )

    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        """Answer questions in parallel, `max_parallel` at a time."""
        # Questions about one video may list different subtitles, and a context has one.
        groups: dict[tuple[Any, float], list[Item]] = {}
        for item in items:
            groups.setdefault((item.subtitles, item.subtitle_offset), []).append(item)
        for group in groups.values():
            yield from self._group(group, context)

    def _group(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        with ExitStack() as stack:
            try:
                reasoner, modules, records = self._prepare(items[0], context, stack)
            except QUESTION_ERRORS as error:
                cost = context.meter.take().share(len(items))
                yield from ((item, replace(failed_result(error), cost=cost)) for item in items)
                return
            # Frames and encoding of the video are shared by all questions; the index is recorded apart.
            prepared = context.meter.take().share(len(items))
            for start in range(0, len(items), self.settings.max_parallel):
                batch = items[start : start + self.settings.max_parallel]
                results = reasoner.reason([ReasoningTask(item.question, modules) for item in batch])
                self._check_answerer(results)
                shared = prepared + _shared_cost(context, results).share(len(batch))
                for item, result in zip(batch, results, strict=True):
                    yield item, replace(result, cost=shared + result.cost, prepared=records)

    def _check_answerer(self, results: Sequence[Result]) -> None:
        """Raise BackboneError if a question failed because an answerer of its own serves no request; a run
        checks its backbone itself."""
        assert self._loaded is not None
        failed = [result.error for result in results if result.error is not None]
        broken = next((error for error in failed if error.type == BackboneError.__name__), None)
        if broken is not None and self._loaded.answerer is not self._loaded.backbone:
            check_alive(self._loaded.answerer, broken.message)

    def _prepare(
        self, item: Item, context: MethodContext, stack: ExitStack
    ) -> tuple[Reasoner, VideoContext, tuple[Preparation, ...]]:
        """The reasoner and the modules for questions with this item's subtitles, and the index that they
        search; `stack` releases their resources."""
        # Not the metered backbone: the planner counts its own calls, and calls of programs are counted per
        # thread, before they are batched.
        loaded = self._load(context.backbone.inner)
        adapter = None if self.settings.answer_adapter == "on" else False
        thread_meter = ThreadMeter()
        answerer = MeteredBackbone(BatchingBackbone(loaded.answerer, adapter=adapter), thread_meter)
        subtitles = context.subtitles(item) if self.settings.subtitles == "listed" else None
        records = _index(loaded.models, context)
        with context.meter.stage("modules"), thread_meter.into(context.meter):
            modules = loaded.models.context(context.video, answerer, subtitles, self.settings.without)
        reasoner = Reasoner(
            loaded.planner,
            replace(self.settings.reasoning(), adaptive=self.adaptive),
            thread_meter=thread_meter,
            visual=self._visual(loaded.planner, context, stack),
            prompt_file=loaded.prompt_file,
            seed=context.seed,
            observer=context.observer,
        )
        return reasoner, modules, records

    def _visual(self, planner: Planner, context: MethodContext, stack: ExitStack) -> Visual:
        """The video for the planner, encoded once for all questions and refinements; None: text only."""
        seer = context.backbone
        if planner.backbone is not None:
            seer = MeteredBackbone(planner.backbone, context.meter)
        count = self.settings.planner_frames
        count = seer.frames if count is None else count
        if not planner.sees_video or count == 0:
            return None
        frames = context.frames(uniform_times(0.0, context.video.duration, count), seer)
        return stack.enter_context(seer.prefix(frames))

    def answerer(self, backbone: Backbone) -> Backbone:
        """What answers inside the programs of a run with this backbone, loaded once. Raises ConfigError or
        BackboneError."""
        return self._load(backbone).answerer

    def _load(self, backbone: Backbone) -> _Loaded:
        """The planner and the other models for a backbone, loaded once."""
        if self._loaded is None or self._loaded.backbone is not backbone:
            settings = self.settings
            planner = load_planner(
                settings.planner,
                backbone,
                is_fine_tuned=_is_short(backbone)
                if settings.planner_prompt == "auto"
                else settings.planner_prompt == "short",
                sampling=settings.sampling(),
                api_key_env=settings.api_key_env,
                # At least one, which a planner that is shown none does not use.
                frames=settings.planner_frames or None,
                pixels=settings.planner_pixels,
            )
            answerer = backbone
            if settings.answer_adapter == "off":
                answerer = load_answerer(settings.answerer, backbone, api_key_env=settings.api_key_env)
            # The module models of pocket go with who answers: a merged pocket planner is another folder.
            models = ModuleModels(settings, pocket=is_pocket(answerer), flag=self.flag_without_model)
            self._loaded = _Loaded(backbone, planner, answerer, models, self._prompts_for(backbone))
        return self._loaded

    def _prompts_for(self, backbone: Backbone) -> PromptFile | None:
        """The user's prompts: those of the settings, else those on which the backbone says it was trained."""
        record, settings = backbone.planner, self.settings
        if self._prompt_file is not None or record is None or not record.prompts:
            return self._prompt_file
        if settings.planner != "self" or settings.planner_prompt != "auto":
            return None
        return self._checked(PromptFile(record.prompts, f"recorded by {backbone.name}"))


def _is_short(backbone: Backbone) -> bool:
    """Whether a backbone was trained on the short prompts: it has an adapter, or its folder records it."""
    facts = backbone.identity()
    return bool(facts.get("adapter") or facts.get("adapter_model") or backbone.planner)


class ProgramMethod(BaseProgramMethod):
    """Always several steps (Table 2: multi-step visual program)."""

    name = "program"
    Settings = ProgramSettings
    adaptive = False


class AdaptiveMethod(BaseProgramMethod):
    """Native or several steps, as the planner decides, without refinement (section 3.4)."""

    name = "adaptive"
    Settings = ProgramSettings
    adaptive = True


class VideoProMethod(BaseProgramMethod):
    """Adaptive reasoning with self-refinement (section 3.5)."""

    name = "videopro"
    Settings = VideoProSettings
    adaptive = True


def _index(models: ModuleModels, context: MethodContext) -> tuple[Preparation, ...]:
    """Build the clip index that the modules will load, if it is missing. Its cost is in its record and in no
    question's own cost, so that a run that finds it ready costs the same."""
    encoder = models.encoder()
    if encoder is None:
        return ()
    before = context.meter.take()
    _, made = prepare_index(context.video, encoder)
    context.meter.take()
    context.meter.add(before)
    return (made,)


def _shared_cost(context: MethodContext, results: Sequence[Result]) -> Cost:
    """The metered cost that belongs to no single question."""
    own = sum(result.cost.seconds for result in results)
    taken = context.meter.take()
    return replace(taken, seconds=max(0.0, taken.seconds - own))
