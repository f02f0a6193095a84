"""The interface of a method: how it answers a question, with a record of every round."""

from __future__ import annotations

import math
import sys
import traceback
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from videopro.backbones import Backbone, BackboneConfig, ServerSettings, check_key_name, load_backbone
from videopro.backbones.wrappers import Meter, MeteredBackbone
from videopro.benchmarks import Item, Protocol
from videopro.cli import Need, answering_settings, build_settings, check_least, option
from videopro.errors import (
    QUESTION_ERRORS,
    ConfigError,
    NativeError,
    UnexpectedError,
    VideoProError,
    as_unexpected,
    is_machines,
)
from videopro.modules import OPTIONS_FLAG, Spoken
from videopro.traces import Call, Cost, Execution, FallbackRule, Result, Round, Step, failed_result
from videopro.video import Frame, Subtitles, Video, distinct_frames, load_subtitles

FALLBACK_HELP = (
    "fallback if the programs or agent give no answer: none, or native (ask the model directly); with calls "
    "or seconds: native"
)


@dataclass(frozen=True)
class Questions:
    """The facts about a run's questions that its settings depend on."""

    protocol: Protocol
    open: int = 0
    """The number of open-ended questions."""
    videos: Iterable[Path] = ()
    """Their videos; without those that are made for the questions, as a benchmark's own model knows them."""
    remedy: str = ""
    """The fix if the method cannot answer open-ended questions; unset: the method's advice."""

    def require_whole_videos(self, method: str) -> None:
        """Raise ConfigError for a method that searches the whole video if only a part of each video is
        shown."""
        if self.protocol.shown != "video":
            raise ConfigError(
                f"method {method!r} looks anywhere in the video, but protocol {self.protocol.name!r} shows "
                "only the annotated clue; use --method native, or another --protocol"
            )

    def require_choices(self, reason: str, remedy: str) -> None:
        """Raise ConfigError, with the reason, if some questions are open-ended."""
        if self.open:
            raise ConfigError(f"{reason}; {self.remedy or remedy}")


@dataclass(frozen=True)
class RunRequest:
    """A run as requested by the user."""

    method: str
    options: Mapping[str, Any]
    """Options of the method."""
    model: str
    backbone: Mapping[str, Any]
    """Settings of the model."""
    questions: Callable[[], Questions]
    """Reads the questions, which may take a while: a method first checks what it can without them. Called
    again, it returns the same."""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """What the run's folder has of the method's identity; empty for a new run."""
    load: Callable[..., Backbone] = load_backbone
    """Makes the model, as `load(model, **backbone)`. Tests pass their own: then the model's settings and
    needs are not checked."""

    @property
    def server(self) -> ServerSettings:
        """How requests are sent to the run's servers. Raises ConfigError."""
        return ServerSettings.given_in(self.backbone)


class Observer(typing.Protocol):
    """Notified in order; events of questions that run in parallel are interleaved."""

    def on_wait(self, doing: str) -> None:
        """A long stage without visible progress begins, such as "planning"."""

    def on_reply(self, round: Round) -> None:
        """The planner replied; its program has not run yet."""

    def on_call(self, call: Call) -> None:
        """A module call returned or failed."""

    def on_execution(self, execution: Execution) -> None:
        """The program ended."""

    def on_step(self, step: Step) -> None:
        """An agent took a step."""


class MethodContext:
    """The resources for answering questions about one video. Everything is metered.

    `backbone` counts calls, tokens and seconds. Decode with `frames`, and wrap other work to be timed
    separately in `with context.meter.stage("name")`.
    """

    def __init__(
        self,
        video: Video,
        backbone: Backbone,
        protocol: Protocol,
        *,
        meter: Meter,
        seed: int = 0,
        observer: Observer | None = None,
        doing: Callable[[str], None] = lambda activity: None,
        texts: dict[Path | None, tuple[str | None, str]] | None = None,
        controls: bool = False,
    ) -> None:
        """`texts`: called with what is read, for the trace: `VideoRef.subtitles` and `text_id`, by the
        subtitle file that the question lists. `controls`: whether programs are replayed for
        `Execution.controls`."""
        self.video = video
        self.meter = meter
        self.backbone = MeteredBackbone(backbone, meter)
        """Counts calls, tokens and seconds in `meter`; `backbone.inner` is the uncounted backbone, for a
        method with its own meter."""
        self.observer = observer
        """Notified while a question is answered; None: no observer."""
        self.doing = doing
        """Called with the stage of work on the whole video, such as "indexing", for the run's progress."""
        self.protocol = protocol
        self.seed = seed
        """Seed of all random choices of a method."""
        self.texts = {} if texts is None else texts
        self.controls = controls

    def frames(self, times: Sequence[float], model: Backbone | None = None) -> list[Frame]:
        """The frames on display at `times` (s), each picture once, at the size that `model` uses; None: the
        backbone."""
        shown_to = self.backbone if model is None else model
        size = shown_to.frame_size(self.video.height, self.video.width, len(times))
        with self.meter.stage("decode"):
            frames = distinct_frames(self.video.frames(times, size=size))
        self.meter.add(Cost(frames=len(frames)))
        return frames

    def subtitles(self, item: Item) -> Subtitles | None:
        """The subtitles that the benchmark lists for this question; None if it lists none. Raises
        SubtitleError."""
        if item.subtitles is None:
            self.texts[None] = ("", "")
            return None
        with self.meter.stage("subtitles"):
            subtitles = load_subtitles(
                item.subtitles,
                duration=self.video.duration,
                start_offset=item.subtitle_offset,
                track=item.subtitle_track,
            )
        self.texts[item.subtitles] = (str(item.subtitles), subtitles.id)
        return subtitles

    @contextmanager
    def recorded_apart(self) -> Iterator[None]:
        """What is made in the block, such as an index, has its cost in its record and in no question's own
        cost, so that a run that finds it ready costs the same."""
        before = self.meter.take()
        yield
        self.meter.take()
        self.meter.add(before)

    def spoken(self, item: Item, transcribe: Callable[[Video], Spoken], *, listed: bool = True) -> Spoken:
        """What is said: the subtitles that the benchmark lists, unless `listed` is False, else a transcript,
        which is recorded apart. Raises SubtitleError, and as `transcribe`."""
        subtitles = self.subtitles(item) if listed else None
        if subtitles is not None:
            return Spoken(subtitles)
        with self.recorded_apart():
            spoken = transcribe(self.video)
        if spoken.subtitles is not None:
            self.texts[item.subtitles] = ("" if listed else None, spoken.subtitles.id)
        return spoken


@dataclass(frozen=True)
class NoSettings:
    """The settings of a method without settings."""


class Method(ABC):
    """A way to answer questions. `Settings` is a frozen dataclass whose fields carry help texts (`setting`).
    A method keeps no state between questions, so any worker may answer any of them."""

    name: ClassVar[str]
    about: ClassVar[str] = ""
    """One line for users who choose a method: what it does, and when to take it."""
    Settings: ClassVar[type] = NoSettings
    makes_requests: ClassVar[bool] = True
    """Whether it chooses the requests to video and models, as planners' programs and agents do; it may then
    have caused an exception."""
    flag_without_model: str = OPTIONS_FLAG
    """The flag that turns off a module's model in the current command, for messages."""
    answers_open_questions: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not is_dataclass(cls.Settings):
            raise TypeError(f"{cls.__name__}.Settings is not a dataclass; add @dataclass(frozen=True)")

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.kept: dict[Any, Any] = {}
        """The models that it has loaded in addition to the run's. A server shares them among methods of the
        same name, whose other options clients set."""

    @classmethod
    def with_options(cls, options: Mapping[str, Any]) -> Self:
        """The method with these settings. Raises ConfigError."""
        return cls(build_settings(cls.Settings, options, f"method {cls.name}"))

    def identity(self) -> dict[str, Any]:
        """What the run's key hashes of this method, JSON-serializable: its name, and the settings that can
        change an answer. Override it where something else distinguishes two runs."""
        settings = self.settings
        is_timed = isinstance(settings, BudgetSettings) and settings.seconds is not None
        mark = {"not_reproducible": "--seconds"} if is_timed else {}
        return {"name": self.name, **answering_settings(settings), **mark}

    def adapt(self, request: RunRequest) -> Adaptation:
        """The run that this method makes of a request; its settings are the request's options. Raises
        VideoProError for options that contradict the protocol, and for questions that it cannot answer.

        Override it for options that the protocol or a model decides, for settings of the backbone, and for
        other models than the run's own.
        """
        questions = request.questions()
        questions.require_whole_videos(self.name)
        if not self.answers_open_questions:
            questions.require_choices(
                f"method {self.name!r} answers multiple-choice questions only",
                f"{questions.open} of these questions are open-ended; use --method native or videopro",
            )
        return Adaptation(self, request.options, request.backbone)

    @abstractmethod
    def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
        """Answer questions about the context's video, yielding each result, with its cost, as soon as it is
        ready. A question that cannot be answered has its error in its result and does not affect the others.
        A VideoProError concerns the whole run, and stops it; after any other exception, `answer_each` asks
        the questions that are left one by one."""

    def run(self, item: Item, context: MethodContext) -> Result:
        """Answer one question."""
        ((_, result),) = self.run_video([item], context)
        return result


@dataclass(frozen=True)
class BudgetSettings:
    """The budget of a question."""

    calls: int | None = option(
        None,
        "maximum model calls per question, with the answer's; unset: no limit",
        client="less",
        answers=True,
    )
    seconds: float | None = option(
        None,
        "maximum seconds per question, exceeded by one call at most; not reproducible; unset: no limit",
        client="less",
        answers=True,
    )

    def __post_init__(self) -> None:
        if self.calls is not None and self.calls < 1:
            raise ConfigError(f"calls is {self.calls}; it must be at least 1, or unset for no limit")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ConfigError(f"seconds is {self.seconds:g}; it must be above 0, or unset for no limit")

    @property
    def has_budget(self) -> bool:
        """Whether a limit is set."""
        return (self.calls, self.seconds) != (None, None)


@dataclass(frozen=True)
class WritingSettings(BudgetSettings):
    """The settings of every method whose models generate text: programs or agent replies."""

    max_new_tokens: int = option(
        1024, "maximum tokens of a planner or agent reply", client="less", answers=True
    )
    subtitles: Literal["listed", "none"] = option(
        "listed", "subtitles: the benchmark's, or none", client="any", answers=True
    )
    fallback: FallbackRule = option("none", FALLBACK_HELP, client="any", answers=True)
    max_parallel: int = option(8, "maximum questions of a video to run in parallel", answers=False)
    api_key_env: str | None = option(
        None,
        "variable with the API key of the method's servers; unset: OPENAI_API_KEY, for OpenAI only",
        answers=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.has_budget:
            # What is kept back of a budget is for this answer.
            object.__setattr__(self, "fallback", "native")
        check_least(self, 1, "max_parallel")
        check_key_name(self.api_key_env)


@dataclass(frozen=True)
class Adaptation:
    """The run that a method makes of a request."""

    method: Method
    options: Mapping[str, Any]
    """Those with which a worker creates the same method, on another machine too."""
    backbone: Mapping[str, Any]
    """Settings of the model, with what the method needs in addition to those given. Part of the run's
    key."""
    notes: tuple[str, ...] = ()
    """Notes to the user."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Other models that the method uses, by role, as far as no option names them."""
    needs: Callable[[BackboneConfig], Sequence[Need]] = lambda model: ()
    """What must be on this machine in addition to the run's model, which is passed in. Called only if the run
    loads something."""


def by_subtitles(items: Sequence[Item]) -> list[list[Item]]:
    """The questions about one video, those together that list the same subtitles: models are shown what is
    said for all questions that they are prepared for."""
    groups: dict[tuple[Path | None, float], list[Item]] = {}
    for item in items:
        groups.setdefault((item.subtitles, item.subtitle_offset), []).append(item)
    return list(groups.values())


def one_by_one(
    answer: Callable[[Item, MethodContext], Result], items: Sequence[Item], context: MethodContext
) -> Iterator[tuple[Item, Result]]:
    """Answer one question after the other, each with its own cost. One that fails has its error in its
    result. For `Method.run_video`."""
    for item in items:
        try:
            result = answer(item, context)
        except QUESTION_ERRORS as error:
            result = failed_result(error)
        yield item, replace(result, cost=context.meter.take())


def answer_each(
    method: Method, items: Sequence[Item], new_context: Callable[[], MethodContext]
) -> Iterator[tuple[Item, Result]]:
    """As `Method.run_video`, with a result for every question: after an unexpected exception the remaining
    questions are asked one by one, and those that end in one have it in their result.

    `new_context`: makes a context of the questions' video. Raises VideoProError for what concerns the whole
    run, and the machine's errors.
    """
    left, context = list(items), new_context()
    try:
        for item, result in method.run_video(items, context):
            # From a user's method: its record could not be read again.
            if result.selected is not None and not 0 <= result.selected < len(result.rounds):
                raise ValueError(
                    f"Result.selected is {result.selected}, but the result has {len(result.rounds)} rounds"
                )
            left.remove(item)
            yield item, result
        return
    except VideoProError:
        raise
    except Exception as error:
        if is_machines(error):
            raise
        # One that met several questions together, or came after the last answer, is in no question's record.
        print(f"an unexpected exception; questions without an answer yet: {len(left)}", file=sys.stderr)
        traceback.print_exc()
        if len(left) == 1:
            kind = UnexpectedError if method.makes_requests else NativeError
            result = failed_result(as_unexpected(error, kind))
            yield left[0], replace(result, cost=context.meter.take())
            return
    for item in left:
        yield from answer_each(method, [item], new_context)
