"""The modules of one video as functions that a program can call: checked, counted, recorded and cached.

    context = VideoContext(video, backbone, subtitles=..., index=..., ...)     # once per video
    library = ModuleLibrary(context, use_frames=use_frames, line=calling_line)   # once per program
    outcome = executor.run(program, library.functions(), inputs, prelude=library.prelude)

To add a module, decorate a function with `videopro.modules.calls.module` in a file of your own, or in a
package with an entry point in the group "videopro.modules", and name it with `extra_modules`
(CONTRIBUTING.md)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from videopro.errors import ConfigError
from videopro.modules import (
    answering,
    context,
    extraction,
    localization,
    retrieval,
)
from videopro.modules.calls import (
    FAMILIES,
    MODULES,
    NEEDS,
    PLUGIN_MODULES,
    PRELUDE,
    AnswerHandle,
    CallCache,
    CallContext,
    ClipHandle,
    HostHandle,
    Module,
    VideoHandle,
    bind_arguments,
    check_arguments,
    show,
)
from videopro.modules.calls import VideoContext as VideoContext
from videopro.modules.errors import ModuleError, UnavailableError
from videopro.modules.reference import api_reference
from videopro.plugins import Plugin, Registry
from videopro.question import Question
from videopro.storage import stored_text
from videopro.traces import ArgumentRecorder, FrameRef
from videopro.traces import Call as Record

# Imported for the modules that they register.
_OURS = (retrieval, localization, extraction, context, answering)

PROGRAM_MODULES: Registry[Callable[..., Any]] = Registry(
    "module",
    lambda value: any(value is each.function for each in PLUGIN_MODULES.values()),
    {each.name: each.function for each in MODULES.values()},
    what="a function decorated with @module (videopro.modules.calls)",
)
"""Plug-in modules for `extra_modules`; built-in ones are always offered."""

# What a program's calls may add to its trace.
_RESULT_CHARS = 1000
_MOST_INTERVALS = 10_000


class CachedResult(NamedTuple):
    """The result of a call, for equal calls of other programs on the same video."""

    result: Any
    frames: tuple[FrameRef, ...] = ()
    """Those that were used for it."""
    frame_count: int = 0
    """How many of them counted against the budget."""
    confidence: float | None = None
    """What a model has in it; None: it gives none."""


class MadeCall(NamedTuple):
    """A call that a program made, as `videopro.modules.replaying` repeats it. Equal calls are one: modules
    are pure, so they have the same result."""

    module: Module
    values: Mapping[str, Any]
    """The checked arguments."""
    position: int
    """Of the first of these calls in `ModuleLibrary.calls`."""
    result: Any = None
    error: ModuleError | None = None
    """What the call raised, in place of a result."""
    confidence: float | None = None
    """Of an answer Eq. 2, of what a model read or detected its own score, 1.0 of subtitles; None: the module
    has none, as a search for clips."""


def extra_modules(names: Sequence[str]) -> dict[str, Plugin[Callable[..., Any]]]:
    """The modules of plug-ins that a setting names, by the names that programs call. Raises ConfigError for
    one that cannot be loaded, and for two of one name."""
    extra: dict[str, Plugin[Callable[..., Any]]] = {}
    for spelling in names:
        plugin = PROGRAM_MODULES.find(spelling)
        if other := extra.get(plugin.name):
            raise ConfigError(
                f"extra_modules: {other.address} and {plugin.address} both define {plugin.name}(); leave one "
                "out"
            )
        extra[plugin.name] = plugin
    return extra


def available_modules(context: VideoContext, *, is_open: bool = False) -> list[Module]:
    """The modules that have everything they need for this video and are not disabled, in the order of
    registration. `is_open`: in their forms for an open question."""
    return [
        spec
        for spec in context.modules(is_open=is_open).values()
        if spec.family not in context.without and all(context.has(need) for need in spec.needs)
    ]


class ModuleLibrary:
    """The modules of one video for one program. A program makes one call at a time; libraries on several
    threads may share a context and a cache.

    A module raises ModuleError for errors that the program can fix, and whatever else the video, a model or a
    library raises: `videopro.methods.program` sorts that.
    """

    prelude = PRELUDE
    """Source code for the executor's child process: how handles behave inside a program."""

    def __init__(
        self,
        context: VideoContext,
        *,
        cache: CallCache[CachedResult] | None = None,
        use_frames: Callable[[int], None] = lambda count: None,
        line: Callable[[], int | None] = lambda: None,
        question: Question | None = None,
    ) -> None:
        """`cache` None: the one shared by the process. `use_frames` is called with the number of frames that
        a call uses, on the caller's thread and before anything is decoded (`videopro.executor.use_frames`
        keeps a budget). Cached calls count like any other, so that a program does not pass or fail depending
        on earlier calls. `line` returns the program's line that makes the call at hand
        (`videopro.executor.calling_line`). `question`: the one that the program answers; its own texts are
        never too long for a call."""
        self.context = context
        self.calls: list[Record] = []
        """All calls so far, failed ones included (their result is the error)."""
        self.answers: list[AnswerHandle] = []
        """The results of the answering calls, in order; the source of the confidence."""
        self.frames = 0
        """Frames used so far."""
        self.made: dict[Hashable, MadeCall] = {}
        """The calls of modules that are cached, by `call_key`, each once, in the order of the first."""
        self.is_replayable = True
        """Whether every call gave a result or an error that it would give again."""
        self._use_frames = use_frames
        self._line = line
        self._is_open = question is not None and question.is_open
        # A question may be longer than the texts of a program may be, and every program passes it on.
        question_chars = 0 if question is None else len(question.text) + sum(map(len, question.choices))
        self._scope = context.scope.for_texts(question_chars)
        self._cache = cache if cache is not None else shared_cache()
        self._recorder = ArgumentRecorder(show)
        self._intervals_left = _MOST_INTERVALS

    @property
    def video(self) -> VideoHandle:
        """The program's `video`."""
        return self.context.handle

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The modules by name. A module that lacks something it needs is included and raises UnavailableError
        when called; `api_reference` leaves it out."""
        return {
            name: self.function(spec) for name, spec in self.context.modules(is_open=self._is_open).items()
        }

    def reference(self) -> str:
        """The API reference of this video's modules, made from their signatures and docstrings."""
        modules = available_modules(self.context, is_open=self._is_open)
        return api_reference(modules, self.context.clip_times)

    def function(self, spec: Module) -> Callable[..., Any]:
        """A module as a function of this video, as in `functions`."""

        @functools.wraps(spec.function)
        def call(*args: Any, **keywords: Any) -> Any:
            return self._run(spec, args, keywords)

        # Hide the signature: a program does not pass the first parameter, the context.
        del call.__wrapped__
        return call

    def _run(self, spec: Module, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        started = time.perf_counter()
        named = zip((parameter.name for parameter in spec.parameters), args, strict=False)
        # Before the checks, so that a refused call is on the record with what was passed.
        trace_args = self._recorder.record([*named, *keywords.items()])
        made, cached = CachedResult(None), False
        text = ""
        try:
            self._check_available(spec)
            values = check_arguments(spec, bind_arguments(spec, args, keywords), self._scope)
            made, cached = self._kept_result(spec, values)
            self.frames += made.frame_count
            text = show(made.result)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            # What the machine or a bug did need not happen again.
            self.is_replayable &= isinstance(error, ModuleError)
            raise
        finally:
            seconds = time.perf_counter() - started
            intervals = _intervals(made.result) if spec.family == "retrieval" else ()
            self._intervals_left -= len(intervals)
            if self._intervals_left < 0:
                intervals, text = (), f"{text} (its intervals are not recorded: there are too many)"
            text = stored_text(text, _RESULT_CHARS)
            self.calls.append(
                Record(spec.name, trace_args, text, made.frames, seconds, cached, intervals, self._line())
            )
        if isinstance(made.result, AnswerHandle) and not made.result.is_claim:
            # Not those of make_result: their confidence is the program's claim.
            self.answers.append(made.result)
        return _fresh(made.result)

    def _check_available(self, spec: Module) -> None:
        if spec.family in self.context.without:
            group = FAMILIES[spec.family].lower()
            raise UnavailableError(
                f"{spec.name}() cannot be used: this run is without {group}; do without it"
            )
        missing = next((need for need in spec.needs if not self.context.has(need)), None)
        if missing is not None:
            raise UnavailableError(f"{spec.name}() cannot be used: {NEEDS[missing]}; do without it")

    def _kept_result(self, spec: Module, values: Mapping[str, Any]) -> tuple[CachedResult, bool]:
        """As `_result`; what is needed to repeat the call is kept."""
        if not spec.is_cached:
            return self._result(spec, values)
        key, position = call_key(spec, values), len(self.calls)
        try:
            made, cached = self._result(spec, values)
        except ModuleError as error:
            self.made.setdefault(key, MadeCall(spec, values, position, error=error))
            raise
        self.made.setdefault(key, MadeCall(spec, values, position, made.result, confidence=made.confidence))
        return made, cached

    def _result(self, spec: Module, values: Mapping[str, Any]) -> tuple[CachedResult, bool]:
        """The result of a call, and whether it was cached."""

        def compute() -> CachedResult:
            call = CallContext(self.context, self._use_frames)
            result = spec.function(call, **values)
            confidence = result.confidence if isinstance(result, AnswerHandle) else call.confidence
            return CachedResult(result, tuple(call.frame_refs), call.frames_used, confidence)

        if not spec.is_cached:
            return compute(), False
        key = (self.context.identity(spec.family), call_key(spec, values))
        made, cached = self._cache.get(key, compute)
        if cached:
            # A program must not pass or fail by what another one looked at before it.
            self._use_frames(made.frame_count)
        return made, cached


# For all videos: their identity is in the keys.
_cache: CallCache[CachedResult] = CallCache()


def shared_cache() -> CallCache[CachedResult]:
    """The cache that a process shares by default."""
    return _cache


def call_key(spec: Module, values: Mapping[str, Any]) -> Hashable:
    """Equal for calls of one module with the same checked arguments."""
    return spec.name, _key(values)


def _key(value: Any) -> Hashable:
    """A checked argument's value as part of a cache key."""
    if isinstance(value, HostHandle):
        return value.key
    if isinstance(value, Mapping):
        return tuple((name, _key(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_key(part) for part in value)
    # With the type: 1, 1.0 and True are equal to Python, and not to a module.
    return (type(value).__name__, value)


def _fresh(value: Any) -> Any:
    """A copy with new lists, so that a caller that changes them does not change the cache."""
    if isinstance(value, list):
        return [_fresh(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_fresh(part) for part in value)
    return value


def _intervals(value: Any) -> tuple[tuple[float, float], ...]:
    """The intervals of the clips and subtitle lines in a result, in seconds."""
    if isinstance(value, ClipHandle):
        return ((round(value.start, 3), round(value.end, 3)),)
    if isinstance(value, list | tuple):
        return tuple(interval for part in value for interval in _intervals(part))
    return ()
