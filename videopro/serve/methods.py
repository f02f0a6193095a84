"""The methods with which a server answers: prepared when a question first names them, and kept with the
models behind their modules."""

from __future__ import annotations

import json
import threading
import typing
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from cachetools import LRUCache

from videopro.backbones import Backbone, knowing_models
from videopro.benchmarks import ROBUST, Protocol
from videopro.cli import did_you_mean, plain_type
from videopro.errors import ConfigError, VideoProError
from videopro.methods import (
    METHODS,
    Method,
    PreparedRun,
    Questions,
    RunRequest,
    favouring_answers,
    prepare,
)
from videopro.modules import ModuleSettings
from videopro.question import Question, prompts, without_own_labels
from videopro.serve.problems import Problem
from videopro.serve.store import StoredVideo
from videopro.storage import encodable

LONGEST_TEXT = 20_000
"""Characters of a question, a choice or a message."""


@dataclass(frozen=True)
class AskRequest:
    """A question about a video."""

    video: StoredVideo
    question: str
    choices: tuple[str, ...] = ()
    """Empty: an answer in words."""
    method: str | None = None
    """None: the server's default."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method, over the server's."""
    earlier: tuple[prompts.Exchange, ...] = ()
    """Earlier questions and answers."""
    max_new_tokens: int | None = None
    """Limit of a direct answer in words; None: the server's limit."""

    def as_question(self, *, with_earlier: bool = True) -> Question:
        """What the model reads; `with_earlier`: after the earlier messages."""
        text = prompts.with_conversation(encodable(self.question), self.earlier if with_earlier else ())
        return question_of(text, without_own_labels(tuple(map(encodable, self.choices))))


def question_of(text: str, choices: tuple[str, ...]) -> Question:
    """The question; without choices it is answered in words."""
    return Question(text, choices) if choices else Question.open(text)


_NUMBERS: Mapping[Any, str] = {int: "integer", float: "number"}
_LARGEST = 1e9
"""Where the operator has no limit."""


def _settable(method: type[Method]) -> Iterator[Field[Any]]:
    settings: Any = method.Settings
    return (option for option in fields(settings) if option.metadata.get("client"))


def _kind(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a number or a choice."""
    plain = plain_type(hint)
    return {"type": _NUMBERS[plain]} if plain in _NUMBERS else {"enum": list(typing.get_args(plain))}


_KEPT = 8
_PLANNING_METHOD = "videopro"


class PreparedMethods:
    """Methods by their names and options. Thread-safe. Raises VideoProError for settings that are wrong.

    `method`, `options`: used for questions that name nothing else; the options are for that method,
    and bound what a question may set; those that choose models behind modules also hold for the others that
    write programs. `methods`: others that it may name; none: all that need no other options. `frames`: the
    model's budget.
    """

    def __init__(
        self,
        model: str,
        backbone: Mapping[str, Any],
        method: str,
        options: Mapping[str, Any],
        methods: Sequence[str],
        max_new_tokens: int,
        frames: Callable[[], int],
        load: Callable[..., Backbone],
    ) -> None:
        self._model = model
        self._given = dict(backbone)
        plugins = [METHODS.find(name) for name in (method, *methods)]
        self._method = plugins[0].name
        self._addresses = {plugin.name: plugin.address for plugin in plugins}
        self._options = dict(options)
        self._max_new_tokens = max_new_tokens
        self._load = load
        self._kept: LRUCache[str, PreparedRun] = LRUCache(_KEPT)
        self._in_scope: set[tuple[str, tuple[str, ...]]] = set()
        """Methods whose models may look at videos that these plug-ins' models know."""
        self._lock = threading.Lock()
        self._models: defaultdict[str, dict[Any, Any]] = defaultdict(dict)
        """By method: clients set other options, and the models stay."""
        self.first = self._prepare(self._method, self._options, self._protocol(None))
        """The server's own method."""
        others = [plugin.name for plugin in plugins[1:]]
        self._kinds: dict[str, type[Method]] = {}
        for name in (*(name for name in METHODS.ours() if not others or name in others), *others):
            try:
                self._prepare(name, self._operators(name), self._protocol(None))
                self._kinds[name] = METHODS[name]
            except ConfigError:
                # It lacks what only the operator can set, such as lvagent its agents.
                if others:
                    raise
        self._kinds[self.first.method.name] = type(self.first.method)
        self.names = list(self._kinds)
        """Of the methods that a client may name."""
        self._frames = frames

    def model_settings(self) -> dict[str, Any]:
        """The settings with which the model is loaded, for the server's own method and for one that plans:
        a small model needs an adapter for that, which is off for methods that do not ask for one."""
        try:
            planning = self._planning().backbone
        except VideoProError:
            planning = {}
        return {**planning, **self.first.backbone}

    def module_settings(self) -> ModuleSettings:
        """The models behind the modules with which programs search."""
        settings = self.first.method.settings
        if not isinstance(settings, ModuleSettings):
            settings = self._planning().method.settings
        assert isinstance(settings, ModuleSettings)
        return settings

    def of(self, request: AskRequest) -> tuple[PreparedRun, Protocol]:
        """The method for a question. Raises Problem for what its client cannot set, VideoProError for
        incompatible settings, and for a video that its models do not know."""
        is_open = not request.choices
        method = request.method or self._method
        asked = self._checked(method, request.options)
        options = {**self._operators(method), **asked}
        protocol = self._protocol(request.max_new_tokens)
        # Kept, because its models are loaded with its first question, and a served planner is asked for its
        # record.
        key = json.dumps([method, options, protocol.reply_tokens, is_open], sort_keys=True)
        scope = key, knowing_models(request.video.path)
        with self._lock:
            prepared = self._kept.get(key) if scope in self._in_scope else None
        if prepared is None:
            prepared = self._prepare(method, options, protocol, is_open=is_open, video=request.video)
            with self._lock:
                prepared = self._kept.setdefault(key, prepared)
                self._in_scope.add(scope)
        return prepared, protocol

    def described(self) -> list[dict[str, Any]]:
        """The methods that a client may name with the options that it may set, each as JSON Schema."""
        return [
            {
                "id": name,
                "about": kind.about,
                "open_questions": kind.answers_open_questions,
                "options": [self._described(name, option) for option in _settable(kind)],
            }
            for name, kind in self._kinds.items()
        ]

    def _checked(self, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that are set. Raises Problem for a method or an option that a client may not name, and
        for a value above the operator's."""
        if method not in self._kinds:
            message = f"unknown method {method[:60]!r}; {did_you_mean(method, list(self._kinds))}"
            if method in METHODS.ours():
                message = f"method {method!r} is not available here; choose one of {', '.join(self._kinds)}"
            raise Problem(400, message, code="unknown_method", param="videopro.method")
        settable = {option.name: option for option in _settable(self._kinds[method])}
        for name, value in options.items():
            param = f"videopro.options.{name}"
            if name not in settable:
                if name in {option.name for option in fields(self._kinds[method].Settings)}:
                    message = f"only the operator can set option {name!r} of method {method!r}; leave it out"
                    raise Problem(403, message, code="operators_option", param=param)
                known = did_you_mean(name, sorted(settable))
                message = f"method {method!r} has no option {name[:60]!r}; {known}"
                raise Problem(400, message, code="unknown_option", param=param)
            kind = self._described(method, settable[name])
            most = min(kind.get("maximum", _LARGEST), _LARGEST)
            # A text that is a number would be read as one.
            if isinstance(value, str) and "enum" not in kind:
                raise Problem(400, f"option {name!r} must be a number, not text", param=param)
            if isinstance(value, int | float) and not -_LARGEST <= value <= most:
                message = f"option {name!r} is {str(value)[:20]}; the maximum here is {most:g}"
                raise Problem(400, message, code="above_limit", param=param)
        return {name: value for name, value in options.items() if value is not None}

    def _described(self, method: str, option: Field[Any]) -> dict[str, Any]:
        value = None if option.default is MISSING else option.default
        if method == self.first.method.name:
            value = getattr(self.first.method.settings, option.name)
        most = None if option.metadata["client"] == "any" else value
        if option.metadata["client"] == "frames" and value is None:
            most = self._frames()
        kind = _kind(typing.get_type_hints(self._kinds[method].Settings)[option.name])
        described = {"name": option.name, "description": option.metadata["help"], "default": value, **kind}
        return described if most is None else {**described, "maximum": most}

    def _planning(self) -> PreparedRun:
        return self._prepare(_PLANNING_METHOD, self._operators(_PLANNING_METHOD), self._protocol(None))

    def _operators(self, method: str) -> dict[str, Any]:
        """The operator's options for a method: those of the server's own, but for the models behind modules,
        which all methods that write programs share."""
        if method == self._method:
            return self._options
        has_modules = issubclass(METHODS[method].Settings, ModuleSettings)
        shared = {part.name for part in fields(ModuleSettings)} if has_modules else set()
        return {name: value for name, value in self._options.items() if name in shared}

    def _protocol(self, max_new_tokens: int | None) -> Protocol:
        # Chat front ends ask for more than any answer takes.
        return Protocol(
            parser=ROBUST, reply_tokens=min(max_new_tokens or self._max_new_tokens, self._max_new_tokens)
        )

    def _prepare(
        self,
        method: str,
        options: Mapping[str, Any],
        protocol: Protocol,
        *,
        is_open: bool = False,
        video: StoredVideo | None = None,
    ) -> PreparedRun:
        videos = [] if video is None else [video.path]
        questions = Questions(protocol, open=int(is_open), videos=videos, remedy="give choices")
        options = favouring_answers(method, options)
        prepared = prepare(
            RunRequest(
                self._addresses.get(method, method),
                options,
                self._model,
                self._given,
                lambda: questions,
                load=self._load,
            )
        )
        prepared.method.kept = self._models[method]
        return prepared
