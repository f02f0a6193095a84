"""Answers questions about films with one model, which is loaded once.

A question takes the same way as that of `videopro ask`: its method is prepared, the film is opened, and what
happens is told as it happens. Methods are kept with the models behind their modules; the model that answers
is shared by all questions, whose requests it serves in batches.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from videopro.backbones import Backbone, load_backbone
from videopro.backbones.wrappers import Meter, share_backbone
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.cli import Need
from videopro.errors import Cancellation, ConfigError, VideoProError, cancellable
from videopro.methods import (
    EventObserver,
    MethodContext,
    PreparedRun,
    Questions,
    RunRequest,
    answer_each,
    answer_event,
    evidence,
    favouring_answers,
    make_trace,
    prepare,
    video_ref,
)
from videopro.modules import (
    ModuleModels,
    ModuleSettings,
    check_scope,
    is_of_pocket,
    is_pocket,
    is_pocket_video,
)
from videopro.question import Question, prompts, without_own_labels
from videopro.runs import asked_identity
from videopro.serve.films import Film
from videopro.serve.problems import Problem
from videopro.serve.rounds import RoundsSoFar
from videopro.storage import encodable
from videopro.traces import Trace
from videopro.video import Video

Emit = Callable[[dict[str, Any]], None]

_KEPT_METHODS = 8
_KEPT_VIDEOS = 64
_PLANNING_METHOD = "videopro"
_POCKET_ONLY = (
    "this is the pocket model, which knows the generated pocket videos only; it answers about no other film"
)
_NO_CONVERSATION = "the pocket model reads one question at a time: the earlier messages were left out"


@dataclass(frozen=True)
class AskRequest:
    """A question about a film."""

    film: Film
    question: str
    choices: tuple[str, ...] = ()
    """Empty: it is answered in words."""
    method: str | None = None
    """None: the server's own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the method, over the server's."""
    earlier: tuple[prompts.Exchange, ...] = ()
    """What was asked and answered before it."""
    max_new_tokens: int | None = None
    """Of a direct answer in words; None: the server's own limit."""


@dataclass(frozen=True)
class _Ready:
    """A method that may answer."""

    prepared: PreparedRun
    backbone: Backbone
    protocol: Protocol


class Answerer:
    """The model, and the methods that answer with it. Thread-safe. Raises VideoProError for settings that are
    wrong; nothing is loaded before `load`.

    `method`, `options`: what answers if a question names nothing else; the options are for that method alone.
    """

    def __init__(
        self,
        model: str,
        *,
        backbone: Mapping[str, Any] | None = None,
        method: str = "native",
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
        max_new_tokens: int = 256,
        load: Callable[..., Backbone] = load_backbone,
    ) -> None:
        self.model = model
        self.method = method
        self.is_pocket = is_of_pocket(model)
        """Whether the model knows pocket videos only."""
        self._given = dict(backbone or {})
        self._options = dict(options or {})
        self._seed = seed
        self._max_new_tokens = max_new_tokens
        self._load = load
        self._loaded: Backbone | None = None
        self._methods: LRUCache[str, PreparedRun] = LRUCache(_KEPT_METHODS)
        self._in_scope: set[tuple[str, bool]] = set()
        """Methods whose models may look at pocket videos, or at others."""
        self._identities: dict[bool, dict[str, object]] = {}
        self._searching: ModuleModels | None = None
        self._has_encoder = False
        self._videos: LRUCache[tuple[Path, int], Video] = LRUCache(_KEPT_VIDEOS)
        self._lock = threading.Lock()
        self._identifying = threading.Lock()
        self._first = self._prepare(method, self._options, self._protocol(None))
        self._settings = {**self._planning_settings(), **self._first.backbone}

    @property
    def name(self) -> str:
        """The model as clients call it: without the address of its server or the path of its folder."""
        if self.model.startswith("server:"):
            return self.model.removeprefix("server:").split("@")[0]
        return Path(self.model).name if Path(self.model).expanduser().is_dir() else self.model

    @property
    def is_concurrent(self) -> bool:
        """Whether the loaded model serves many requests by itself, as a server does."""
        return self._backbone().is_concurrent

    @property
    def backbone(self) -> Backbone:
        """The loaded model, for any number of threads. Raises Problem before it is loaded."""
        return self._backbone()

    def needs(self) -> list[Need]:
        """What has to be on this machine."""
        return self._first.needs()

    def notes(self) -> tuple[str, ...]:
        """What to tell the operator about the settings."""
        return self._first.notes

    def load(self) -> None:
        """Load the model. Raises BackboneError."""
        self._loaded = share_backbone(self._load(self.model, **self._settings))

    def close(self) -> None:
        """Release the model."""
        if self._loaded is not None:
            self._loaded.close()

    def check(self, request: AskRequest) -> None:
        """Raise VideoProError for a question that cannot be answered, before it waits for its turn."""
        self._ready(request)

    def about(self) -> str | None:
        """What to know about the model before a question is asked."""
        return _POCKET_ONLY if self.is_pocket else None

    def scope_problem(self, film: Film) -> str | None:
        """Why the model cannot answer about a film at all; None: it can."""
        try:
            check_scope({"model": self.model}, [film.path])
        except ConfigError as error:
            return str(error).replace(str(film.path), film.name)
        return None

    def settings(self, request: AskRequest) -> dict[str, Any]:
        """The settings of the run that a question belongs to, for its readers."""
        ready = self._ready(request)
        return {
            "method": ready.prepared.method.name,
            "options": dict(ready.prepared.options),
            "model": self.model,
            "backbone": dict(ready.prepared.backbone),
            "seed": self._seed,
        }

    def identity(self, request: AskRequest) -> dict[str, Any]:
        """All that decides a question's answer apart from the question: questions with the same identity are
        one run."""
        ready = self._ready(request)
        asked = asked_identity(ready.protocol, method=ready.prepared.identity, seed=self._seed)
        return {**asked, "model": self._model_identity(ready.backbone)}

    def ask(
        self,
        request: AskRequest,
        emit: Emit,
        cancellation: Cancellation,
        *,
        id: str = "ask",
        begun: Callable[[RoundsSoFar], None] = lambda rounds: None,
    ) -> Trace:
        """Answer a question, and tell what happens. `begun` gets the rounds that are to come. Raises
        VideoProError for what concerns more than this question, and Cancelled; a question that cannot be
        answered has its error in its trace."""
        with cancellable(cancellation):
            film, observer = request.film, EventObserver(emit)
            rounds = RoundsSoFar(observer)
            begun(rounds)
            with _named(film):
                ready = self._ready(request)
                video = self._video(film)
            question = self._question(request)
            item = Item(id, film.path, film.id, question, subtitles=film.subtitles)

            def new_context() -> MethodContext:
                return MethodContext(
                    video,
                    ready.backbone,
                    ready.protocol,
                    meter=Meter(),
                    seed=self._seed,
                    observer=rounds,
                    doing=rounds.on_wait,
                )

            with _named(film):
                ((_, result),) = answer_each(ready.prepared.method, [item], new_context)
            if request.earlier and self.is_pocket:
                result = replace(result, notes=(*result.notes, _NO_CONVERSATION))
            if result.error is not None:
                message = result.error.message.replace(str(film.path), film.name)
                result = replace(result, error=replace(result.error, message=message))
            plain = replace(item, question=replace(question, text=encodable(request.question)))
            trace = make_trace(plain, result, video_ref(item, video), run_key="", protocol=ready.protocol)
            for piece in evidence(result, (video.width, video.height)):
                emit({"type": "evidence", **piece})
            emit(answer_event(result, question))
            return trace

    # -- indexes

    def has_index(self, film: Film) -> bool:
        """Whether the clips of a film are indexed for programs to search. True where no index is used. A
        large encoder is not loaded just to say so: until one is, no index is known."""
        from videopro.modules.search import index_path

        models = self._modules()
        if not self.is_pocket and not self._has_encoder and models.names["encoder"] != "none":
            return False
        encoder = models.encoder()
        return encoder is None or index_path(self._video(film), encoder).exists()

    def index(self, film: Film, emit: Emit, cancellation: Cancellation) -> None:
        """Index the clips of a film, if they are not, and tell the progress. Raises VideoProError, and
        Cancelled."""
        from videopro.modules.search import build_index

        def progress(done: int, total: int) -> None:
            cancellation.check()
            emit({"type": "progress", "doing": "indexing", "done": done, "total": total})

        with cancellable(cancellation), _named(film):
            encoder = self._modules().encoder()
            self._has_encoder = True
            if encoder is not None:
                build_index(self._video(film), encoder, progress=progress)

    def _modules(self) -> ModuleModels:
        """The models behind the modules with which programs search."""
        with self._lock:
            if self._searching is None:
                settings = self._first.method.settings
                if not isinstance(settings, ModuleSettings):
                    settings = self._prepare(_PLANNING_METHOD, {}, self._protocol(None)).method.settings
                assert isinstance(settings, ModuleSettings)
                self._searching = ModuleModels(settings, pocket=is_pocket(self._backbone()))
            return self._searching

    # -- preparing

    def _model_identity(self, backbone: Backbone) -> dict[str, object]:
        """The identity of the model, with or without its adapter; reading it once takes a while."""
        is_whole = backbone is self._loaded
        with self._identifying:
            if is_whole not in self._identities:
                self._identities[is_whole] = dict(backbone.identity())
            return self._identities[is_whole]

    def _backbone(self) -> Backbone:
        if self._loaded is None:
            raise Problem(503, "the model is still being loaded", code="loading", retry_after=5)
        return self._loaded

    def _protocol(self, max_new_tokens: int | None) -> Protocol:
        most = self._max_new_tokens
        return Protocol(
            parser=ROBUST, reply_tokens=most if max_new_tokens is None else min(max_new_tokens, most)
        )

    def _planning_settings(self) -> Mapping[str, Any]:
        """The settings of a model that is to plan too: the pocket model needs an adapter for it, which is off
        for methods that do not ask for one."""
        try:
            return self._prepare(_PLANNING_METHOD, {}, self._protocol(None)).backbone
        except VideoProError:
            return {}

    def _prepare(
        self,
        method: str,
        options: Mapping[str, Any],
        protocol: Protocol,
        *,
        is_open: bool = False,
        film: Film | None = None,
    ) -> PreparedRun:
        videos = [] if film is None else [film.path]
        questions = Questions(protocol, open=int(is_open), videos=videos, remedy="give choices")
        options = favouring_answers(method, options)
        return prepare(
            RunRequest(method, options, self.model, self._given, lambda: questions, load=self._load)
        )

    def _ready(self, request: AskRequest) -> _Ready:
        """The method for a question. Raises VideoProError for settings that do not go together, and for a
        film that its models do not know."""
        is_open = self._question(request).is_open
        method = request.method or self.method
        options = {**(self._options if method == self.method else {}), **request.options}
        protocol = self._protocol(request.max_new_tokens)
        # Kept, because its models are loaded with its first question, and a served planner is asked for its
        # record.
        key = json.dumps([method, options, protocol.reply_tokens, is_open], sort_keys=True)
        scope = key, is_pocket_video(request.film.path)
        with self._lock:
            prepared = self._methods.get(key) if scope in self._in_scope else None
        if prepared is None:
            with _named(request.film):
                prepared = self._prepare(method, options, protocol, is_open=is_open, film=request.film)
            with self._lock:
                prepared = self._methods.setdefault(key, prepared)
                self._in_scope.add(scope)
        return _Ready(prepared, self._backbone_for(prepared), protocol)

    def _backbone_for(self, prepared: PreparedRun) -> Backbone:
        """The loaded model as a method needs it. Raises ConfigError if it was loaded with other settings."""
        loaded, wanted = self._backbone(), dict(prepared.backbone)
        if wanted == self._settings:
            return loaded
        if {**wanted, "adapter": self._settings.get("adapter")} == self._settings:
            return share_backbone(loaded, adapter=False)
        changed = {name: value for name, value in wanted.items() if self._settings.get(name) != value}
        flags = " ".join(f"{name}={value}" for name, value in changed.items())
        raise ConfigError(
            f"method {prepared.method.name!r} needs the model with other settings than it was loaded with: "
            f"start the server with --backbone {flags}"
        )

    def _question(self, request: AskRequest) -> Question:
        # The pocket model reads questions of the forms that it was trained on, and no conversation.
        earlier = () if self.is_pocket else request.earlier
        text = prompts.with_conversation(encodable(request.question), earlier)
        if not request.choices:
            return Question.open(text)
        return Question(text, without_own_labels(tuple(map(encodable, request.choices))))

    def _video(self, film: Film) -> Video:
        key = (film.path, film.modified)
        with self._lock:
            video = self._videos.get(key)
        if video is None:
            video = Video.open(film.path)
            with self._lock:
                self._videos[key] = video
        return video


@contextmanager
def _named(film: Film) -> Iterator[None]:
    """Errors call the film by its name, and not by its path on the server."""
    try:
        yield
    except VideoProError as error:
        message = str(error)
        if isinstance(error, Problem) or str(film.path) not in message:
            raise
        raise type(error)(message.replace(str(film.path), film.name)) from error
