"""Methods that answer by programs: `program` always takes several steps, `adaptive` chooses, `videopro`
refines.

They differ only in the settings of `videopro.reasoning.Reasoner`. Planner and models are loaded for the first
question and kept for the whole process; no state is kept between questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

from videopro.backbones import Backbone, Sampling, Visual
from videopro.backbones.wrappers import BatchingBackbone, MeteredBackbone, ThreadMeter
from videopro.benchmarks import Item, Protocol
from videopro.errors import QUESTION_ERRORS, ConfigError
from videopro.methods.base import Method, MethodContext
from videopro.modules import (
    PAPER_FRAMES,
    ModuleModels,
    ModuleSettings,
    VideoContext,
    check_paper_parts,
    is_pocket,
    paper_notes,
    resolve_speech,
)
from videopro.modules.calls import REMOVABLE
from videopro.modules.search import prepare_index
from videopro.planners import Planner, check_planner, load_planner, teacher_of
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


@dataclass(frozen=True)
class ProgramSettings(ModuleSettings):
    """Settings of every method that writes programs; those of ModuleSettings choose the models behind the
    modules."""

    planner: str = field(
        default="self",
        metadata=setting(
            "planner that writes programs: self (the backbone), pocket-teacher, api:MODEL or api:MODEL@URL"
        ),
    )
    planner_frames: int | None = field(
        default=None,
        metadata=setting("frames in the planner's prompt, 0 for none; unset: the backbone's budget"),
    )
    planner_prompt: Literal["auto", "short", "full"] = field(
        default="auto",
        metadata=setting(
            "full: with the API reference and examples; auto: short if the backbone has an adapter"
        ),
    )
    temperature: float = field(
        default=0.7, metadata=setting("sampling temperature of the planner; 0: greedy")
    )
    top_p: float = field(default=1.0, metadata=setting("top-p of the planner's sampling"))
    max_new_tokens: int = field(default=1024, metadata=setting("maximum tokens of a planner's reply"))
    api_key_env: str | None = field(
        default=None,
        metadata=setting(
            "variable with the API key of api:MODEL@URL; unset: OPENAI_API_KEY, for OpenAI only"
        ),
    )
    subtitles: Literal["listed", "none"] = field(
        default="listed", metadata=setting("subtitles for the modules: those the benchmark lists, or none")
    )
    answer_adapter: Literal["off", "on"] = field(
        default="off", metadata=setting("on: modules answer with the planner's adapter on")
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
        if self.subtitles == "none" and self.speech == "auto":
            object.__setattr__(self, "speech", "none")
        super().__post_init__()
        check_planner(self.planner)
        if self.planner_frames is not None and self.planner_frames < 0:
            raise ConfigError(f"planner_frames is {self.planner_frames}; it must be 0 or more")
        if self.planner_frames and self.planner != "self":
            raise ConfigError(
                f"planner_frames is {self.planner_frames}, but planner {self.planner!r} does not see the "
                "video; leave it out"
            )
        for group in self.without:
            if group not in REMOVABLE:
                raise ConfigError(
                    f"without: unknown group of modules {group!r}; {did_you_mean(group, REMOVABLE)}"
                )
        self.sampling()
        self.reasoning()

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

    def reasoning(self) -> ReasoningSettings:
        return ReasoningSettings(
            tau=self.tau,
            max_rounds=self.max_rounds,
            refine_below=self.refine_below,
            rule=self.rule,
            shows=self.refinement_shows,
            max_parallel=self.max_parallel,
        )


_SHIPPED_PLANNER = (
    f"planner: the shipped adapter {PLANNERS[0]} (the pocket model itself cannot write programs; "
    "others: --backbone adapter=FOLDER, --planner pocket-teacher)"
)


class BaseProgramMethod(Method):
    """The common base of the three methods."""

    adaptive: ClassVar[bool]
    settings: ProgramSettings

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._loaded: tuple[Backbone, Planner, ModuleModels] | None = None

    def identity(self) -> dict[str, Any]:
        facts = super().identity()
        # What the preset stands for is in the other settings; Whisper is there or it is not.
        del facts["preset"]
        facts["speech"] = resolve_speech(facts["speech"])
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
        if self.settings.planner.startswith("pocket-teacher"):
            facts["teacher"] = teacher_of(self.settings.planner).identity()
        return facts

    def backbone_settings(self, model: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """With the frames of a preset, and with the shipped planner if the pocket model would have to write
        programs by itself, which it was never taught. `adapter=null` keeps it as it is."""
        if self.settings.preset == "paper":
            given = {"frames": PAPER_FRAMES, **given}
        if self.settings.planner != "self" or "adapter" in given or model != "pocket":
            return dict(given)
        return {**given, "adapter": PLANNERS[0]}

    def backbone_note(self, model: str, given: Mapping[str, Any]) -> str:
        notes = paper_notes(asdict(self.settings)) if self.settings.preset == "paper" else []
        added = self.backbone_settings(model, given).keys() - given.keys()
        if "adapter" in added:
            notes.append(_SHIPPED_PLANNER)
        return "\n".join(notes)

    def check_models(self) -> None:
        if self.settings.preset == "paper":
            check_paper_parts(asdict(self.settings), self.flag_without_model)

    @classmethod
    def follow(cls, protocol: Protocol, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options; under a protocol without subtitles no video is transcribed unless they name a model
        for it."""
        options = super().follow(protocol, options)
        unnamed = options.get("speech", "auto") in ("auto", "whisper")
        return {**options, "speech": "none"} if protocol.subtitles == "none" and unnamed else options

    def check_open_questions(self, open_questions: int) -> None:
        """Open questions are fine, unless the planner can only write programs that choose."""
        if open_questions and self.settings.planner.startswith("pocket-teacher"):
            raise ConfigError(
                f"planner {self.settings.planner!r} writes programs for multiple-choice questions only; "
                f"{open_questions} of these questions are open: use --planner self or api:MODEL"
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
                shared = prepared + _shared_cost(context, results).share(len(batch))
                for item, result in zip(batch, results, strict=True):
                    yield item, replace(result, cost=shared + result.cost, prepared=records)

    def _prepare(
        self, item: Item, context: MethodContext, stack: ExitStack
    ) -> tuple[Reasoner, VideoContext, tuple[Preparation, ...]]:
        """The reasoner and the modules for questions with this item's subtitles, and the index that they
        search; `stack` releases their resources."""
        # Not the metered backbone: the planner counts its own calls, and calls of programs are counted per
        # thread, before they are batched.
        backbone = context.backbone.inner
        planner, models = self._load(backbone)
        adapter = None if self.settings.answer_adapter == "on" else False
        thread_meter = ThreadMeter()
        answerer = MeteredBackbone(BatchingBackbone(backbone, adapter=adapter), thread_meter)
        subtitles = context.subtitles(item) if self.settings.subtitles == "listed" else None
        records = _index(models, context)
        with context.meter.stage("modules"), thread_meter.into(context.meter):
            modules = models.context(context.video, answerer, subtitles, self.settings.without)
        reasoner = Reasoner(
            planner,
            replace(self.settings.reasoning(), adaptive=self.adaptive),
            thread_meter=thread_meter,
            visual=self._visual(planner, context, stack),
            seed=context.seed,
            observer=context.observer,
        )
        return reasoner, modules, records

    def _visual(self, planner: Planner, context: MethodContext, stack: ExitStack) -> Visual:
        """The video for the planner, encoded once for all questions and refinements; None: text only."""
        count = self.settings.planner_frames
        count = context.backbone.frames if count is None else count
        if not planner.sees_video or count == 0:
            return None
        frames = context.frames(uniform_times(0.0, context.video.duration, count))
        return stack.enter_context(context.backbone.prefix(frames))

    def _load(self, backbone: Backbone) -> tuple[Planner, ModuleModels]:
        """The planner and the module models for a backbone, loaded once."""
        if self._loaded is None or self._loaded[0] is not backbone:
            settings = self.settings
            facts = backbone.identity()
            adapted = bool(facts.get("adapter") or facts.get("adapter_model"))
            planner = load_planner(
                settings.planner,
                backbone,
                is_fine_tuned=adapted
                if settings.planner_prompt == "auto"
                else settings.planner_prompt == "short",
                sampling=settings.sampling(),
                api_key_env=settings.api_key_env,
            )
            models = ModuleModels(settings, pocket=is_pocket(backbone), flag=self.flag_without_model)
            self._loaded = backbone, planner, models
        return self._loaded[1:]


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
