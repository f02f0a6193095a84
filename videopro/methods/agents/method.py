"""The base of the agents: questions in flight, preparation, budgets, and the result of each question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from videopro.backbones import Backbone, BackboneConfig, expected_model, model_needs, own_model
from videopro.benchmarks import Item
from videopro.cli import Need
from videopro.errors import (
    QUESTION_ERRORS,
    BackboneError,
    BudgetExceeded,
    ConfigError,
    NativeError,
    UnexpectedError,
    VideoProError,
    carrying_cancellation,
    unexpected_as,
)
from videopro.methods.agents.models import SELF, AgentModel, ModelLoader, public_role, read_role
from videopro.methods.agents.session import Session
from videopro.methods.agents.settings import AgentSettings
from videopro.methods.base import Adaptation, Method, MethodContext, RunRequest, by_subtitles
from videopro.methods.program import answer_status, error_of_look
from videopro.modules import (
    ModuleModels,
    ModuleSettings,
    Transcripts,
    module_needs,
    speech_identity,
    speech_needs,
)
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.question import Answer
from videopro.traces import (
    AGENT,
    FALLBACK,
    FORCED,
    NO_SUBTITLES,
    Cost,
    Execution,
    Failure,
    Preparation,
    Result,
    Round,
    SharedClock,
    Stopwatch,
    failed_result,
)
from videopro.video import Subtitles, uniform_times


@dataclass(frozen=True)
class Prepared:
    """What an agent prepares from a video before it answers questions."""

    content: Any = None
    """The method's own index or database; thread-safe."""
    records: tuple[Preparation, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What a method prepares from: the video, its subtitles and the models."""

    context: MethodContext
    models: Mapping[str, AgentModel]
    subtitles: Subtitles | None = None


@dataclass(frozen=True)
class Equipment:
    """The models and encoders of an agent under its settings."""

    roles: Mapping[str, str]
    """The name of the model in each role, such as "llm"."""
    seeing: str
    """The role that is shown frames, and that a native fallback asks."""
    encoders: Mapping[str, str] = field(default_factory=dict)
    """The encoders that it loads, as settings of `ModuleSettings`."""
    evidence: bool = False
    """Whether the settings ask for an ablation with the annotated evidence (an oracle)."""


class AgentRun(ABC):
    """An agent at work on one question; it keeps what it has learned between `run` and `conclude`. Its answer
    has no letter if the question is open, or if the agent's last reply could not be parsed."""

    claim: float | None = None
    """The confidence that the agent states, in 0..1, once it has answered."""
    settings: Any
    """Those of its method; each run says of which class they are."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.settings = session.settings

    @abstractmethod
    def run(self) -> Answer:
        """Search and answer. Raises BudgetExceeded when a limit is reached; then `conclude` is called."""

    @abstractmethod
    def conclude(self) -> Answer:
        """Answer now from what is known."""

    def cites(self, answer: Answer) -> tuple[int, ...] | None:
        """Indices of the session's steps that the given answer rests on: those with what its model was shown
        or had read. None: the agent cannot tell."""
        return None


class AgentMethod(Method):
    """A method whose steps are requests to models and tools. Subclasses declare their models, prepare a
    video, and start a run for each question."""

    Settings: ClassVar[type[AgentSettings]]
    settings: AgentSettings
    pixels: int | None = None
    """Maximum pixels of a frame for every model, if the settings ask for one."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        for name in self.equipment().roles.values():
            if name != SELF:
                read_role(name, settings.api_key_env)
        self._transcripts = Transcripts(settings.speech)

    # ---- what a subclass defines -----------------------------------------------------------------------

    @abstractmethod
    def equipment(self) -> Equipment:
        """The models and encoders under its settings."""

    def prepare(self, scene: Scene) -> Prepared:
        """Make what all questions about the video share, once, and record what it costs with a meter of its
        own. Raises one of QUESTION_ERRORS for a video of which it cannot be made."""
        return Prepared()

    @abstractmethod
    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        """An agent for one question."""

    # ---- the interface of a method ---------------------------------------------------------------------

    def adapt(self, request: RunRequest) -> Adaptation:
        adapted = replace(super().adapt(request), models=self.equipment().roles, needs=self._needs)
        if self.pixels is None:
            return adapted
        if adapted.backbone.get("pixels", self.pixels) != self.pixels:
            raise ConfigError(
                f"{self.name}: backbone pixels is {adapted.backbone['pixels']}, but resolution asks for "
                f"{self.pixels}; leave one of them out"
            )
        return replace(adapted, backbone={**adapted.backbone, "pixels": self.pixels})

    def _needs(self, model: BackboneConfig) -> list[Need]:
        needs, equipment = [], self.equipment()
        for role, name in equipment.roles.items():
            if name != SELF:
                needs += model_needs(read_role(name, self.settings.api_key_env), role)
        named: dict[str, Any] = dict(equipment.encoders)
        if named:
            settings, expected = ModuleSettings(**named), expected_model(model)
            needs += module_needs(settings, *expected, flag=self.flag_without_model, parts=tuple(named))
        return [*needs, *speech_needs(self.settings.speech, self.flag_without_model)]

    def identity(self) -> dict[str, Any]:
        identity = super().identity() | speech_identity(self.settings.speech)
        roles = {role: public_role(name) for role, name in self.equipment().roles.items() if role in identity}
        oracle = {"oracle": "evidence"} if self.equipment().evidence else {}
        return identity | roles | oracle

    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        """Answer the questions, `max_parallel` of them in flight, each as soon as it is ready."""
        for group in by_subtitles(items):
            yield from self._group(group, context)

    def models(self, backbone: Backbone) -> dict[str, AgentModel]:
        """The models by role, loaded once per process."""
        frames = backbone.frames if self.settings.preset == "equal" else None
        key = self.settings.api_key_env
        loader = self.kept.setdefault(
            backbone, ModelLoader(backbone, api_key_env=key, frames=frames, pixels=self.pixels)
        )
        return {role: loader[name] for role, name in self.equipment().roles.items()}

    def module_models(self, scene: Scene, settings: ModuleSettings) -> ModuleModels:
        """The encoders of these settings, loaded once per process."""
        made = ModuleModels(settings, answering=own_model(scene.context.backbone.inner))
        models: ModuleModels = self.kept.setdefault(settings, made)
        return models

    def encoder(self, scene: Scene, name: str, use: str) -> VideoTextEncoder:
        """The encoder of this name. Raises ConfigError, which says its `use`, for "none"."""
        encoder = self.module_models(scene, ModuleSettings(encoder=name, encoder_dtype="float32")).encoder()
        if encoder is None:
            raise ConfigError(f"{self.name}: {use}; leave out encoder=none, or set an encoder")
        return encoder

    # ---- questions in flight ---------------------------------------------------------------------------

    def _group(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        # Not the metered backbone: each session counts its own calls.
        models = self.models(context.backbone.inner)
        try:
            with unexpected_as(NativeError):
                context.doing("preparing")
            spoken = context.spoken(
                items[0], self._transcripts.of, listed=self.settings.subtitles == "listed"
            )
            opened = context.meter.take().share(len(items))
            prepared = self.prepare(Scene(context, models, spoken.subtitles))
            context.doing("answering")
        except QUESTION_ERRORS as error:
            cost = context.meter.take().share(len(items))
            yield from ((item, replace(failed_result(error), cost=cost)) for item in items)
            return
        # Recorded apart, so that a run that finds it ready reports the same cost as the one that made it.
        context.meter.take()
        clock, sees_evidence = SharedClock(), self.equipment().evidence
        is_to_read = self.settings.subtitles == "listed" or self.settings.speech != "none"

        def answer(item: Item) -> Result:
            session = Session(
                item.question,
                context.video,
                models,
                self.settings,
                subtitles=spoken.subtitles,
                seed=context.seed,
                evidence=item.evidence if sees_evidence else (),
                observer=context.observer,
            )
            with clock.running() as watch:
                result = self._answer(session, prepared)
            lacks = is_to_read and spoken.subtitles is None
            notes = (*((NO_SUBTITLES,) if lacks else ()), *spoken.notes, *result.notes)
            return replace(
                result,
                cost=opened + _shared(session.settle(), watch),
                prepared=(*spoken.prepared, *prepared.records),
                notes=notes,
            )

        with ThreadPoolExecutor(min(self.settings.max_parallel, len(items))) as threads:
            carried = carrying_cancellation(answer)
            futures: dict[Future[Result], Item] = {threads.submit(carried, item): item for item in items}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                # After an error that concerns the whole run, no further question is started.
                for future in futures:
                    future.cancel()
        # The time in the threads is in the results.
        context.meter.take()

    def _answer(self, session: Session, prepared: Prepared) -> Result:
        try:
            with unexpected_as():
                # Seconds may be over at any time: there is an answer from the first call on.
                direct = self._fallback_apart(session) if self.settings.seconds is not None else None
                run, answer = self.start(session, prepared), Answer()
                try:
                    answer = run.run()
                except BudgetExceeded as spent:
                    # An agent that has not looked yet knows nothing to answer from.
                    session.note(f"{spent}: {FORCED}" if session.steps else str(spent))
                    if session.steps:
                        with suppress(BudgetExceeded), session.budget.last():
                            answer = run.conclude()
                status = answer_status(answer, session.question)
                cites = run.cites(answer) if status == "ok" else None
                steps, cost = tuple(session.steps), session.cost
                searched = Execution(status, answer, run.claim, steps=steps, cites=cites, cost=cost)
                rounds = [Round(AGENT, answer.raw, execution=searched)]
                if self.settings.fallback == "native" and status == "empty":
                    # The forced answer may have been the last call, and named no option.
                    with suppress(BudgetExceeded):
                        rounds.append(direct or self._fallback(session))
        except QUESTION_ERRORS as error:
            result = self._failed(session, error)
            if session.steps:
                cut = Execution("failed", steps=tuple(session.steps), cost=session.cost)
                result = replace(result, rounds=(Round(AGENT, "", execution=cut),))
            return replace(result, notes=tuple(session.notes))
        final = rounds[-1].execution
        assert final is not None
        selected, notes = len(rounds) - 1, tuple(session.notes)
        return Result(tuple(rounds), answer, final.answer, selected=selected, notes=notes)

    def _failed(self, session: Session, error: VideoProError) -> Result:
        """The result of a question that an error ended. What the agent asked for may have caused it: only if
        the question fails without the agent too, it is not the agent's doing."""
        if isinstance(error, BackboneError):
            # Counts as wrong in either case; whether the model is gone, the run finds out.
            return failed_result(error)
        look_error = None
        with suppress(BudgetExceeded):
            look_error = error_of_look(lambda: self._fallback_apart(session))
        if look_error is not None:
            return failed_result(look_error)
        failed = failed_result(error)
        if isinstance(error, UnexpectedError):
            return failed
        # As of a program's call.
        message = f"a request of the agent failed: {type(error).__name__}: {error}"
        return replace(failed, error=Failure("CallError", message))

    def _fallback_apart(self, session: Session) -> Round:
        """The same, without a trace in the session but its cost."""
        apart = Session(
            *(session.question, session.video, session.models, session.settings),
            seed=session.seed,
            budget=session.budget,
        )
        try:
            return self._fallback(apart)
        finally:
            session.cost = session.cost + apart.settle()

    def _fallback(self, session: Session) -> Round:
        """Ask the model that sees frames directly, as the native method does."""
        role = self.equipment().seeing
        before, session.round = len(session.steps), 0
        times = uniform_times(0.0, session.video.duration, session.models[role].frames)
        with session.budget.last():
            answer = session.answer(FALLBACK, role, frames=session.frames(times, role))
        steps = tuple(session.steps[before:])
        execution = Execution(answer_status(answer, session.question), answer, steps=steps)
        return Round(FALLBACK, answer.raw, execution=execution, mode="native")


def _shared(cost: Cost, watch: Stopwatch) -> Cost:
    """The cost with its times scaled from the question's wall time to its share of it."""
    factor = watch.share / watch.wall if watch.wall > 0 else 1.0
    return replace(cost.scaled(factor), seconds=watch.share)
