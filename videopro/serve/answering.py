"""Answers questions about videos with one model, which is loaded once.

As in `videopro ask`, the method is prepared, the video is opened, and each step is an event.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from videopro.backbones import Backbone, check_scope, load_backbone, own_model, owner_of
from videopro.backbones.wrappers import share_backbone
from videopro.benchmarks import Item
from videopro.cli import Need
from videopro.errors import Cancellation, Cancelled, ConfigError, VideoProError, acquired, cancellable
from videopro.methods import (
    EventObserver,
    PreparedRun,
    answer_one,
    last_events,
    make_trace,
    video_ref,
)
from videopro.modules import ModuleModels
from videopro.question import Question
from videopro.runs import Abstention, asked_identity
from videopro.serve.events import EventLog
from videopro.serve.methods import AskRequest, PreparedMethods
from videopro.serve.problems import Problem, called_by_name, failure_told, problem_of, told_of
from videopro.serve.store import StoredVideo, video_of
from videopro.storage import encodable
from videopro.traces import Trace

Emit = Callable[[dict[str, Any]], None]

_NO_CONVERSATION = "this model reads one question at a time; earlier messages were ignored"


class Answerer:
    """A model and its methods. Thread-safe. Raises VideoProError for invalid settings. `load` loads the
    model.

    `method`, `options`: the default for questions; the options apply to that method only, and bound what a
    question can set. `methods`: other methods that questions can choose; empty: all that need no
    other options.
    """

    def __init__(
        self,
        model: str,
        *,
        backbone: Mapping[str, Any] | None = None,
        method: str = "native",
        options: Mapping[str, Any] | None = None,
        methods: Sequence[str] = (),
        seed: int = 0,
        max_new_tokens: int = 256,
        abstain: str = "",
        load: Callable[..., Backbone] = load_backbone,
    ) -> None:
        self.model = model
        self.method = method
        self.own = owner_of(model)
        """The plug-in that the model comes from, if any."""
        self.converses = self.own is None or self.own.converses
        """Whether it reads earlier messages."""
        self._seed = seed
        self._methods = PreparedMethods(
            *(model, backbone or {}, method, options or {}, methods, max_new_tokens),
            lambda: self.backbone.frames,
            load,
        )
        self.method_names = self._methods.names
        self._load = load
        self._settings = self._methods.model_settings()
        self._abstention = Abstention.of(abstain, self._methods.first, load)
        self._loaded: Backbone | None = None
        self._views: dict[str, Backbone] = {}
        self._identities: dict[bool, dict[str, object]] = {}
        self._indexes = VideoIndexes(self._module_models)
        self._modules: ModuleModels | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The model's name for clients, without its server's address or its folder's path."""
        if self.model.startswith("server:"):
            return self.model.removeprefix("server:").split("@")[0]
        folder = Path(self.model).expanduser()
        if not folder.is_dir():
            return self.model
        repository = folder.resolve().parent.parent.name
        # A snapshot in the hub's cache is named by its commit, which says nothing to a client.
        if folder.resolve().parent.name == "snapshots" and repository.startswith("models--"):
            return repository.removeprefix("models--").replace("--", "/")
        return folder.resolve().name

    @property
    def backbone(self) -> Backbone:
        """The loaded model, for any number of threads. Raises Problem before it is loaded."""
        if self._loaded is None:
            raise Problem(503, "the model is still loading", code="loading", retry_after=5)
        return self._loaded

    def load(self) -> None:
        """Load the model. Raises BackboneError."""
        self._loaded = share_backbone(self._load(self.model, **self._settings))

    def close(self) -> None:
        """Release the model."""
        if self._loaded is not None:
            self._loaded.close()

    def _backbone_for(self, prepared: PreparedRun) -> Backbone:
        """The loaded model for a method. Raises ConfigError if the method needs other settings."""
        loaded, wanted = self.backbone, dict(prepared.backbone)
        if wanted == self._settings:
            return loaded
        if {**wanted, "adapter": self._settings.get("adapter")} == self._settings:
            # One view of it: it keeps what a method loads in addition.
            return self._views.setdefault("off", share_backbone(loaded, adapter=False))
        changed = {name: value for name, value in wanted.items() if self._settings.get(name) != value}
        flags = " ".join(f"{name}={value}" for name, value in changed.items())
        raise ConfigError(
            f"method {prepared.method.name!r} needs other model settings; start the server with "
            f"--backbone {flags}"
        )

    def needs(self) -> list[Need]:
        """What must be on this machine."""
        return self._methods.first.needs()

    def notes(self) -> tuple[str, ...]:
        """Notes for the operator about the settings."""
        return self._methods.first.notes

    def offered(self) -> list[dict[str, Any]]:
        """The methods that questions can choose, with the options that they can set."""
        return self._methods.described()

    def about(self) -> str | None:
        """What users should know about the model before they ask."""
        return (self.own.scope or None) if self.own is not None else None

    @property
    def sample(self) -> str | None:
        """A sample video, made when it is first used; None: the model has none."""
        return f"{self.own.name}:{self.own.sample}" if self.own is not None and self.own.sample else None

    def scope_problem(self, stored: StoredVideo) -> str | None:
        """Why the model cannot answer about a video; None if it can."""
        try:
            with called_by_name(self._names(stored)):
                check_scope({"model": self.model}, [stored.path])
        except ConfigError as error:
            return told_of(str(error))
        return None

    def questions(self, stored: StoredVideo) -> Sequence[Question] | None:
        """The only questions about a video that the model can answer; None: any."""
        return None if self.own is None else self.own.questions_about(stored.path)

    def _names(self, stored: StoredVideo) -> dict[str, str]:
        """The clients' names of the video and the model."""
        names = {str(stored.path): stored.name}
        # Another name may be a word of any message.
        return {**names, self.model: self.name} if "/" in self.model else names

    # -- questions

    def check(self, request: AskRequest) -> None:
        """Raise VideoProError for a question that cannot be answered, before it enters the queue."""
        with called_by_name(self._names(request.video)):
            prepared, _ = self._methods.of(request)
            self._backbone_for(prepared)
            self._abstention.check(prepared, is_open=not request.choices)
            known = self.questions(request.video)
        asked = request.as_question(with_earlier=False)
        if known is not None and not any(_is_same(asked, each) for each in known):
            message = (
                f"model {self.name!r} answers only the questions made with its videos; choose one of GET "
                f"/v1/files/{request.video.id}/questions"
            )
            raise Problem(400, message, code="unknown_question", param="question")

    def settings(self, request: AskRequest) -> dict[str, Any]:
        """The settings of the run that a question belongs to."""
        prepared, _ = self._methods.of(request)
        return {
            "method": prepared.method.name,
            "options": dict(prepared.options),
            "model": self.model,
            "backbone": dict(prepared.backbone),
            "seed": self._seed,
        }

    def identity(self, request: AskRequest) -> dict[str, Any]:
        """Everything but the question that decides its answer. Questions with the same identity share a
        run."""
        prepared, protocol = self._methods.of(request)
        backbone = self._backbone_for(prepared)
        is_whole = backbone is self._loaded
        with self._lock:
            # Reading it takes a while.
            if is_whole not in self._identities:
                self._identities[is_whole] = dict(backbone.identity())
            model = self._identities[is_whole]
        return {**asked_identity(protocol, method=prepared.identity, seed=self._seed), "model": model}

    def ask(
        self,
        request: AskRequest,
        observer: EventObserver,
        cancellation: Cancellation,
        *,
        id: str = "ask",
    ) -> Trace:
        """Answer a question, with events for `observer`. Raises Cancelled, and VideoProError for problems
        beyond this question; the error of the question itself is in its trace."""
        stored = request.video
        names = self._names(stored)
        with cancellable(cancellation), called_by_name(names):
            prepared, protocol = self._methods.of(request)
            backbone, video = self._backbone_for(prepared), video_of(stored)
            question = request.as_question(with_earlier=self.converses)
            item = Item(id, stored.path, stored.id, question, subtitles=stored.subtitles)
            result = answer_one(
                prepared.method, item, video, backbone, protocol, seed=self._seed, observer=observer
            )
            result = self._abstention.applied(result)
            if request.earlier and not self.converses:
                result = replace(result, notes=(*result.notes, _NO_CONVERSATION))
            if result.error is not None:
                result = replace(result, error=failure_told(result.error, names, id))
            plain = replace(item, question=replace(question, text=encodable(request.question)))
            reference, served = video_ref(item, video), backbone.versions
            trace = make_trace(plain, result, reference, run_key="", protocol=protocol, served=served)
            for event in last_events(result, question, video):
                observer.emit(event)
            return trace

    # -- indexes

    def has_index(self, stored: StoredVideo) -> bool:
        """Whether the clips of a video are indexed; True if no index is used. Loads no large encoder to find
        out: until one is loaded, this is False."""
        return self._indexes.has(stored, may_load=self.own is not None)

    def index(self, stored: StoredVideo, emit: Emit, cancellation: Cancellation) -> None:
        """Index the clips of a video unless they are indexed, with progress events. Raises VideoProError and
        Cancelled."""

        def progress(done: int, total: int) -> None:
            cancellation.check()
            emit({"type": "progress", "doing": "indexing", "done": done, "total": total})

        with cancellable(cancellation), called_by_name(self._names(stored)):
            self._indexes.make(stored, progress)

    def _module_models(self) -> ModuleModels:
        with self._lock:
            if self._modules is None:
                answering = own_model(self.backbone)
                self._modules = ModuleModels(self._methods.module_settings(), answering=answering)
            return self._modules


def _is_same(asked: Question, known: Question) -> bool:
    """Whether it is the question that is known: by its words, and by its choices in any order, if it has
    any."""

    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    choices = [sorted(map(words, each.choices)) for each in (asked, known)]
    return words(asked.text) == words(known.text) and (asked.is_open or choices[0] == choices[1])


class VideoIndexes:
    """Finds and builds the clip indexes of videos. The first one loads the encoder. Thread-safe."""

    def __init__(self, models: Callable[[], ModuleModels]) -> None:
        self._models = models
        self._has_encoder = False

    def has(self, stored: StoredVideo, *, may_load: bool) -> bool:
        """Whether the clips of a video are indexed; True if no index is used. Without `may_load`, this is
        False until the first index is built, and opens no video."""
        from videopro.modules.search import index_path

        models = self._models()
        if not may_load and not self._has_encoder and models.names["encoder"] != "none":
            return False
        encoder = models.encoder()
        return encoder is None or index_path(video_of(stored), encoder).exists()

    def make(self, stored: StoredVideo, progress: Callable[[int, int], None]) -> None:
        """Index the clips of a video unless they are indexed, or no index is used. Raises VideoProError and
        Cancelled; a partial index is kept."""
        from videopro.modules.search import build_index

        encoder = self._models().encoder()
        self._has_encoder = True
        if encoder is not None:
            build_index(video_of(stored), encoder, progress=progress)


class Indexing:
    """The videos that are being indexed. Thread-safe."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._running: list[tuple[str, Cancellation]] = []
        # One video at a time: each takes the whole decoder. A second request for a video finds it indexed.
        self._turn = threading.Lock()

    def state_of(self, stored: StoredVideo) -> Literal["none", "running", "ready"]:
        """Whether a video's clips are indexed; never for a video that the model cannot see."""
        if any(id == stored.id for id, _ in list(self._running)):
            return "running"
        try:
            return "ready" if self._answerer.has_index(stored) else "none"
        except VideoProError:
            return "none"

    def begin(self, stored: StoredVideo, cancellation: Cancellation) -> EventLog:
        """Index a video on its own thread. Returns its events."""
        log = EventLog()
        threading.Thread(target=self._work, args=(stored, cancellation, log), daemon=True).start()
        return log

    def stop_all(self) -> None:
        """Stop all indexing, because the server is shutting down."""
        for _, cancellation in list(self._running):
            cancellation.cancel()

    def _work(self, stored: StoredVideo, cancellation: Cancellation, log: EventLog) -> None:
        job, error = (stored.id, cancellation), None
        self._running.append(job)
        try:
            with cancellable(cancellation), acquired(self._turn):
                self._answerer.index(stored, log.add, cancellation)
        except Cancelled:
            error = {"type": "Cancelled", "message": "stopped"}
        except BaseException as failure:
            problem = problem_of(failure, f"index of {stored.id}")
            error = {"type": type(failure).__name__, "message": str(problem)}
        finally:
            self._running.remove(job)
            log.add({"type": "indexed", "error": error})
            log.close()
