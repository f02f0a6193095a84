"""Methods that answer by programs: `program` always takes several steps, `adaptive` chooses, `videopro`
refines.

They differ only in the settings of `videopro.methods.program.Reasoner`. Planner and models are loaded for the
first question and kept for the whole process, where all videos in flight share them; no state is kept between
questions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from videopro.backbones import (
    Backbone,
    BackboneConfig,
    Sampling,
    Visual,
    budget_notes,
    check_alive,
    own_model,
)
from videopro.backbones.wrappers import MeteredBackbone, ThreadMeter, share_backbone
from videopro.benchmarks import Item
from videopro.cli import Need
from videopro.errors import QUESTION_ERRORS, BackboneError, NativeError, RunError, acquired, unexpected_as
from videopro.executor import Limits
from videopro.methods.base import Adaptation, Method, MethodContext, Questions, RunRequest, by_subtitles
from videopro.methods.planners import (
    Planner,
    PromptFile,
    load_answerer,
    load_planner,
    own_planner,
    planner_needs,
    program_digest,
    prompt_notes,
    read_prompts,
    recorded_file,
    settle_served_planner,
    spec_identity,
)
from videopro.methods.program.reasoner import Reasoner
from videopro.methods.program.settings import (
    ProgramSettings,
    VideoProSettings,
    adapted_backbone,
    program_needs,
)
from videopro.modules import ModuleModels, ModuleSettings, resolve_speech
from videopro.modules.models.encoders import AUTO_DTYPE
from videopro.traces import (
    REFINEMENT_KINDS,
    Cost,
    Preparation,
    PromptKind,
    ReferenceForm,
    Result,
    failed_result,
)
from videopro.video import stand_ins_in, uniform_times

logger = logging.getLogger(__name__)

_NO_REFINEMENT = "it cannot refine its program, so failed and unsure answers are not refined"


@dataclass(frozen=True)
class _Loaded:
    """What a method needs in addition to its settings."""

    backbone: Backbone
    """The run's own."""
    planner: Planner
    answerer: Backbone
    """Answers inside programs; shared by all of them."""
    own_answerer: Backbone | None
    """The same, as loaded, if it is not the run's model."""
    models: ModuleModels
    prompt_file: PromptFile | None
    """The user's prompts, of the settings or recorded by the planner."""
    reference: ReferenceForm
    """What prompts say of the modules."""
    notes: tuple[str, ...]
    """Warnings to the user about how the planner is prompted."""


class BaseProgramMethod(Method):
    """The common base of the three methods."""

    adaptive: ClassVar[bool]
    answers_open_questions = True
    settings: ProgramSettings

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._reasoning = replace(settings.reasoning(), adaptive=self.adaptive)
        self._limits = Limits(module_seconds=settings.module_seconds)
        self._sampling: Sampling = settings.sampling()
        self._loaded: _Loaded | None = None
        self._prompt_file: PromptFile | None = None
        if settings.prompts is not None:
            self._prompt_file = self._checked(read_prompts(settings.prompts))

    def _checked(self, file: PromptFile) -> PromptFile:
        """The file, if it has the prompts that this method asks with. Raises ConfigError."""
        kinds: tuple[PromptKind, ...] = ("plan" if self.adaptive else "plan_program",)
        if self._reasoning.max_rounds > 0:
            kinds += REFINEMENT_KINDS
        file.require(kinds, f"method {self.name}")
        return file

    def identity(self) -> dict[str, Any]:
        settings, facts = self.settings, super().identity()
        program, own = settings.planner_program, own_planner(settings.planner)
        return facts | {
            "planner": self._recorded_planner(),
            "planner_program": None if program is None else program_digest(program),
            "teacher": None if own is None else own.identity(),
            # Not where the texts were read: a run can be resumed and viewed without the file.
            "prompts": None if self._prompt_file is None else dict(self._prompt_file.texts),
            "answerer": None if settings.answerer is None else spec_identity(settings.answerer),
            "final_answer": facts.pop("final"),
            "without": sorted({*settings.without}),
            "speech": resolve_speech(settings.speech),
            "encoder_dtype": settings.encoder_precision,
        }

    def _recorded_planner(self) -> str:
        """The planner without what changes no answer: a server's address, a file's folder."""
        planner = self.settings.planner
        if planner.startswith("server:"):
            planner = str(spec_identity(planner)["model"])
        elif self.settings.planner_program is not None:
            planner = recorded_file(planner)
        return planner

    def adapt(self, request: RunRequest) -> Adaptation:
        """With what a served planner's own record says of how it is asked. Under a protocol without subtitles
        no video is transcribed, unless the options ask for it."""
        options = settle_served_planner(
            request.options, request.recorded, request.server, request.backbone.get("pixels")
        )
        backbone, notes = adapted_backbone(self.settings, request.model, request.backbone)
        questions = request.questions()
        questions.require_whole_videos(self.name)
        if questions.protocol.subtitles == "none" and options.get("speech", "auto") == "auto":
            options["speech"] = "none"
        # As the run began, else this machine's, settled here: a worker's may differ.
        if "encoder_dtype" in request.recorded and options.get("encoder_dtype", AUTO_DTYPE) == AUTO_DTYPE:
            options["encoder_dtype"] = request.recorded["encoder_dtype"]
        adapted = self.with_options(options)
        options["encoder_dtype"] = adapted.settings.encoder_precision
        adapted._refuse_open(questions)
        if adapted._prompt_file is not None:
            # Workers get the texts that were checked, even if the file changes meanwhile.
            options["prompts"] = dict(adapted._prompt_file.texts)
        if adapted.settings.planner_program is not None:
            # For the same reason, and because a worker on another machine has no such file.
            options["planner_program"] = adapted.settings.planner_program
            if isinstance(adapted.settings, VideoProSettings):
                notes = (*notes, f"planner {adapted.settings.planner}: {_NO_REFINEMENT}")
        return Adaptation(adapted, options, backbone, notes, needs=adapted._needs)

    def _needs(self, model: BackboneConfig) -> list[Need]:
        settings, key = self.settings, self.settings.api_key_env
        inside = program_needs(
            settings, model, answerer=settings.answerer, api_key_env=key, flag=self.flag_without_model
        )
        return [*planner_needs(settings.planner, key), *inside]

    def _refuse_open(self, questions: Questions) -> None:
        """Raise ConfigError for open questions if the planner can only write programs that choose."""
        planner = self.settings.planner
        own = own_planner(planner)
        if own is not None and not own.plans_open_questions:
            questions.require_choices(
                f"planner {planner!r} writes programs for multiple-choice questions only",
                f"{questions.open} of these questions are open-ended; use --planner self or api:MODEL@URL",
            )
        if self._prompt_file is not None:
            questions.require_choices(*self._choices_only(self._prompt_file))

    def _choices_only(self, file: PromptFile) -> tuple[str, str]:
        """Why prompts do not ask open questions, and what helps."""
        fix = "pass --options planner_prompt=full for the default prompts"
        if file is self._prompt_file:
            fix = "leave --prompts out"
        return (
            f"prompts {file.source}: they are for multiple-choice questions only",
            f"some of these questions are open-ended; {fix}, or ask only questions with choices",
        )

    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        """Answer questions in parallel, `max_parallel` at a time."""
        for group in by_subtitles(items):
            yield from self._group(group, context)

    def _group(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        with ExitStack() as stack:
            try:
                with unexpected_as(NativeError):
                    reasoner, records, began = self._prepare(items[0], context, stack)
            except QUESTION_ERRORS as error:
                self._check_answerer([failed_result(error)])
                cost = context.meter.take().share(len(items))
                yield from ((item, replace(failed_result(error), cost=cost)) for item in items)
                return
            # Frames and encoding of the video are shared by all questions; the index is recorded apart.
            prepared = context.meter.take().share(len(items))
            for start in range(0, len(items), self.settings.max_parallel):
                batch = items[start : start + self.settings.max_parallel]
                results = reasoner.reason([item.question for item in batch], began)
                began = None
                self._check_answerer(results)
                shared = prepared + _shared_cost(context, results).share(len(batch))
                for item, result in zip(batch, results, strict=True):
                    cost, notes = shared + result.cost, (*self._planner_notes(), *result.notes)
                    yield item, replace(result, cost=cost, prepared=records, notes=notes)

    def _planner_notes(self) -> tuple[str, ...]:
        """Warnings to the user about the planner, and the server of a separate planner."""
        if self._loaded is None:
            return ()
        server = self._loaded.planner.backbone
        own = server.notes if server is not None else ()
        return tuple(f"planner: {note}" for note in (*own, *self._loaded.notes))

    def _check_answerer(self, results: Sequence[Result]) -> None:
        """Raise BackboneError if a question failed because its own answerer serves no request; a run
        checks its backbone itself."""
        if self._loaded is None:
            return
        failed = [result.error for result in results if result.error is not None]
        broken = next((error for error in failed if error.type == BackboneError.__name__), None)
        if broken is not None and self._loaded.own_answerer is not None:
            check_alive(self._loaded.own_answerer, broken.message)

    def _prepare(
        self, item: Item, context: MethodContext, stack: ExitStack
    ) -> tuple[Reasoner, tuple[Preparation, ...], float | None]:
        """The reasoner for questions with this item's subtitles, what its modules search, and when the first
        questions began, on the monotonic clock; `stack` releases its resources."""
        # Not the metered backbone: the planner counts its own calls, and calls of programs are counted per
        # thread, before they meet those of other programs.
        loaded = self._load(context.backbone.inner)
        if loaded.prompt_file is not None and item.question.is_open:
            raise RunError("; ".join(self._choices_only(loaded.prompt_file)))
        adapter = None if self.settings.answer_adapter == "on" else False
        thread_meter = ThreadMeter()
        answerer = MeteredBackbone(share_backbone(loaded.answerer, adapter=adapter), thread_meter)
        context.doing("indexing")
        listed = self.settings.subtitles == "listed"
        spoken = context.spoken(item, loaded.models.spoken, listed=listed)
        with context.recorded_apart():
            _, indexed = loaded.models.index(context.video)
        with context.meter.stage("modules"), thread_meter.into(context.meter):
            modules = loaded.models.context(
                context.video, answerer, spoken.subtitles, self.settings.without, spoken
            )
        context.doing("answering")
        began = time.monotonic()
        visual, stand_ins = self._visual(loaded.planner, context, stack)
        reasoner = Reasoner(
            loaded.planner,
            self._reasoning,
            modules,
            thread_meter=thread_meter,
            visual=visual,
            stand_ins=stand_ins,
            prompt_file=loaded.prompt_file,
            reference=loaded.reference,
            limits=self._limits,
            seed=context.seed,
            observer=context.observer,
            controls=context.controls,
        )
        return reasoner, (*spoken.prepared, *indexed), began

    def _visual(
        self, planner: Planner, context: MethodContext, stack: ExitStack
    ) -> tuple[Visual, tuple[tuple[float, float], ...]]:
        """The video for the planner, encoded once for all questions and refinements, None: text only; and its
        frames that replace damaged ones."""
        seer = context.backbone
        if planner.backbone is not None:
            seer = MeteredBackbone(planner.backbone, context.meter)
        count = self.settings.planner_frames
        count = seer.frames if count is None else count
        if not planner.sees_video or count == 0:
            return None, ()
        frames = context.frames(uniform_times(0.0, context.video.duration, count), seer)
        return stack.enter_context(seer.prefix(frames)), stand_ins_in(frames)

    def answerer(self, backbone: Backbone) -> Backbone:
        """The model that answers inside the programs of a run with this backbone, loaded once. Raises
        ConfigError or RunError."""
        own = self._load(backbone).own_answerer
        return backbone if own is None else own

    def _load(self, backbone: Backbone) -> _Loaded:
        """The planner and the other models for a backbone, loaded once, by one thread."""
        with acquired(self.kept.setdefault("loading", threading.Lock())):
            if self._loaded is None or self._loaded.backbone is not backbone:
                self._loaded = self._load_all(backbone)
            return self._loaded

    def _load_all(self, backbone: Backbone) -> _Loaded:
        settings, shared = self.settings, share_backbone(backbone)
        planner = load_planner(
            settings.planner,
            shared,
            is_fine_tuned=self._is_short(backbone),
            sampling=self._sampling,
            api_key_env=settings.api_key_env,
            # At least one, which a planner that is shown none does not use.
            frames=settings.planner_frames or None,
            pixels=settings.planner_pixels,
            server=backbone.server_settings,
            weights=settings.planner_weights,
            program=settings.planner_program,
        )
        answerer = self.kept.get("answerer", shared)
        if settings.answer_adapter == "off" and answerer is shared:
            try:
                answerer = load_answerer(settings.answerer, shared, api_key_env=settings.api_key_env)
            except BackboneError as error:
                # It concerns every question.
                raise RunError(f"the answerer inside programs cannot be loaded: {error}") from error
        # The module models of a plug-in go with who answers: a planner that was merged from it is another
        # folder.
        named = tuple(getattr(settings, part.name) for part in fields(ModuleSettings))
        models = self.kept.setdefault(
            named, ModuleModels(settings, answering=own_model(answerer), flag=self.flag_without_model)
        )
        if answerer is not shared:
            self.kept["answerer"] = answerer
        notes = self._own_notes(backbone) if settings.planner == "self" else ()
        for note in notes:
            logger.warning("warning: %s", note)
        prompt_file = self._prompts_for(backbone, planner)
        return _Loaded(
            backbone,
            planner,
            share_backbone(answerer),
            None if answerer is shared else answerer,
            models,
            prompt_file,
            self._reference_for(backbone, planner, prompt_file),
            notes,
        )

    def _own_notes(self, backbone: Backbone) -> tuple[str, ...]:
        """Where the settings ask the backbone as a planner in another way than it records of its training."""
        who, settings = f"model {backbone.name!r}", self.settings
        form, reference = settings.planner_prompt, settings.reference
        notes = prompt_notes(who, backbone.planner, form, self._prompt_file, reference)
        if backbone.record is not None:
            frames = {"frames": settings.planner_frames}
            notes += budget_notes(who, backbone.record, frames, prefix="planner_")
        return tuple(notes)

    def _is_short(self, backbone: Backbone) -> bool | None:
        """Whether the planner was trained on the short prompts; None: a server's model, whose record says so.
        The backbone itself was if it has an adapter, or its folder records it."""
        settings = self.settings
        if settings.planner_prompt != "auto":
            return settings.planner_prompt == "short"
        if settings.planner.startswith("server:"):
            return None if self._prompt_file is None else True
        facts = backbone.identity()
        return bool(facts.get("adapter") or facts.get("adapter_model") or backbone.planner)

    def _prompts_for(self, backbone: Backbone, planner: Planner) -> PromptFile | None:
        """The user's prompts: those of the settings, else those on which the planner says it was trained."""
        if self._prompt_file is not None or self.settings.planner_prompt != "auto":
            return self._prompt_file
        name, texts = planner.name, planner.prompts
        if self.settings.planner == "self" and backbone.planner is not None:
            name, texts = backbone.name, backbone.planner.prompts
        return self._checked(PromptFile(texts, f"recorded by {name}")) if texts else None

    def _reference_for(self, backbone: Backbone, planner: Planner, file: PromptFile | None) -> ReferenceForm:
        """What prompts say of the modules: the setting, else what the planner was trained on. Texts of the
        user's own that show the modules are filled with all that is known of them, as is a prompt for a
        planner that was not trained."""
        if self.settings.reference != "auto":
            return self.settings.reference
        if file is None and self.settings.planner_prompt != "auto":
            return "none" if planner.is_fine_tuned else "full"
        trained = planner.reference
        if self.settings.planner == "self" and backbone.planner is not None:
            trained = backbone.planner.reference
        if trained != "none":
            return trained
        return "none" if planner.is_fine_tuned and file is None else "full"


class ProgramMethod(BaseProgramMethod):
    """Always several steps (Table 2: multi-step visual program)."""

    name = "program"
    about = "Always writes a program that searches the video. For details in long videos."
    Settings = ProgramSettings
    adaptive = False


class AdaptiveMethod(BaseProgramMethod):
    """Native or several steps, as the planner decides, without refinement (section 3.4)."""

    name = "adaptive"
    about = "Answers at once or writes a program, as the model chooses. Fast for easy questions."
    Settings = ProgramSettings
    adaptive = True


class VideoProMethod(BaseProgramMethod):
    """Adaptive reasoning with self-refinement (section 3.5)."""

    name = "videopro"
    about = "Answers at once or writes a program, and tries again when that fails or is unsure."
    Settings = VideoProSettings
    adaptive = True


def _shared_cost(context: MethodContext, results: Sequence[Result]) -> Cost:
    """The metered cost that belongs to no single question."""
    own = sum(result.cost.seconds for result in results)
    taken = context.meter.take()
    return replace(taken, seconds=max(0.0, taken.seconds - own))
