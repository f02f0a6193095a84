"""The methods with which a server answers: prepared when a question first names them, and kept with the
models behind their modules."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cachetools import LRUCache

from videopro.backbones import Backbone, knowing_models
from videopro.benchmarks import ROBUST, Protocol
from videopro.errors import VideoProError
from videopro.methods import METHODS, PreparedRun, Questions, RunRequest, favouring_answers, prepare
from videopro.modules import ModuleSettings
from videopro.serve.films import Film
from videopro.serve.offered import Offered
from videopro.serve.problems import Problem
from videopro.serve.requests import AskRequest

_KEPT = 8
_PLANNING_METHOD = "videopro"


class PreparedMethods:
    """Methods by their names and options. Thread-safe. Raises VideoProError for settings that are wrong.

    `method`, `options`: what answers if a question names nothing else; the options are for that method alone,
    and bound what a question may set. `methods`: others that it may name; none: all. `frames`: the model's
    budget.
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
        self.offered = Offered(self.first.method, [plugin.name for plugin in plugins[1:]], frames)
        """What a question may set."""

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
        """The method for a question. Raises Problem for what its client may not set, VideoProError for
        settings that do not go together, and for a film that its models do not know."""
        is_open = not request.choices
        method = request.method or self._method
        asked = self.offered.checked(method, request.options)
        options = {**(self._options if method == self._method else {}), **asked}
        protocol = self._protocol(request.max_new_tokens)
        # Kept, because its models are loaded with its first question, and a served planner is asked for its
        # record.
        key = json.dumps([method, options, protocol.reply_tokens, is_open], sort_keys=True)
        scope = key, knowing_models(request.film.path)
        with self._lock:
            prepared = self._kept.get(key) if scope in self._in_scope else None
        if prepared is None:
            prepared = self._prepare(method, options, protocol, is_open=is_open, film=request.film)
            with self._lock:
                prepared = self._kept.setdefault(key, prepared)
                self._in_scope.add(scope)
        return prepared, protocol

    def _planning(self) -> PreparedRun:
        return self._prepare(_PLANNING_METHOD, {}, self._protocol(None))

    def _protocol(self, max_new_tokens: int | None) -> Protocol:
        most = self._max_new_tokens
        if max_new_tokens is not None and max_new_tokens > most:
            message = f"max_tokens is {str(max_new_tokens)[:20]}; at most {most} is offered here"
            raise Problem(400, message, code="above_limit", param="max_tokens")
        return Protocol(parser=ROBUST, reply_tokens=most if max_new_tokens is None else max_new_tokens)

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
