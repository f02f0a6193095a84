"""One video's callable modules, as a program calls them: checked, counted, recorded, remembered.

    context = VideoContext(video, backbone, subtitles=..., index=..., ...)     # once a video
    library = ModuleLibrary(context, use_frames=executor.use_frames)         # once a program
    outcome = executor.run(program, library.functions(), inputs, prelude=library.prelude)

To add a module, decorate a function with `videopro.modules.library.module`. Knows the families and their
contexts; must not know programs, planning, runs or training.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from videopro.modules import answering, context, extraction, localization, retrieval
from videopro.modules.calls.arguments import bind_arguments, check_arguments
from videopro.modules.calls.cache import CallCache
from videopro.modules.calls.context import CallContext, VideoContext
from videopro.modules.calls.handles import AnswerHandle, ClipHandle, Handle, VideoHandle, show
from videopro.modules.calls.prelude import PRELUDE
from videopro.modules.calls.registry import ALIASES, FAMILIES, MODULES, NEEDS, Module, module
from videopro.modules.errors import UnavailableError
from videopro.modules.reference import api_reference
from videopro.traces import Call as Record
from videopro.traces import FrameRef

__all__ = ["CallCache", "ModuleLibrary", "VideoContext", "available_modules", "module"]

# Imported for the modules that they register.
_BUILT_IN_MODULES = (retrieval, localization, extraction, context, answering)

CachedResult = tuple[Any, tuple[FrameRef, ...], int]
"""A result, the frames that were looked at for it, and how many of the budget they took."""


def available_modules(context: VideoContext) -> list[Module]:
    """The modules that have everything they need for this video and are not left out, in the order of their
    registration."""
    return [
        one
        for one in MODULES.values()
        if one.family not in context.without and all(context.has(need) for need in one.needs)
    ]


class ModuleLibrary:
    """The modules of one video for one program. A program's calls come one at a time; several libraries may
    share a context and a memory from several threads.

    A module raises ModuleError for what the program can mend. Any other VideoProError (an unreadable video, a
    model that cannot be reached) is no fault of the program: whoever runs it should not let it go on.
    """

    prelude = PRELUDE
    """Source for the executor's child: how handles behave inside a program."""

    def __init__(
        self,
        context: VideoContext,
        *,
        memory: CallCache[CachedResult] | None = None,
        use_frames: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`memory` None: the one that the process shares. `use_frames` is told, on the caller's thread and
        before anything is decoded, how many frames a call looks at (`videopro.executor.use_frames` keeps a
        budget); remembered calls count like others, so that a program does not fail or pass by what was asked
        before."""
        self.context = context
        self.calls: list[Record] = []
        """Every call so far, failed ones included (their result is the error)."""
        self.answers: list[AnswerHandle] = []
        """What the answering calls gave, in order: where confidence comes from."""
        self.frames = 0
        """Frames looked at so far."""
        self._use_frames = use_frames
        self._memory = memory if memory is not None else shared_cache()

    @property
    def video(self) -> VideoHandle:
        """What a program gets as `video`."""
        return self.context.handle

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The modules by name. One that lacks what it needs is there too, and says so when it is called, but
        `api_reference` leaves it out."""
        return {name: self._callable(one) for name, one in MODULES.items()}

    def reference(self) -> str:
        """The API reference of this video's modules, made from their signatures and docstrings."""
        return api_reference(available_modules(self.context))

    def _callable(self, one: Module) -> Callable[..., Any]:
        @functools.wraps(one.function)
        def call(*args: Any, **keywords: Any) -> Any:
            return self._run(one, args, keywords)

        # The module's own first parameter is no part of what a program calls.
        del call.__wrapped__
        return call

    def _run(self, one: Module, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        started = time.perf_counter()
        shown: dict[str, Any] = {
            **{parameter.name: _plain(value) for parameter, value in zip(one.takes, args, strict=False)},
            **{name: _plain(value) for name, value in keywords.items()},
        }
        cached = False
        looked: tuple[FrameRef, ...] = ()
        result: Any = None
        text = ""
        try:
            self._check_available(one)
            bound = bind_arguments(one.name, one.takes, ALIASES, args, keywords)
            values = check_arguments(one.name, one.takes, bound, self.context.scope)
            (result, looked, count), cached = self._result(one, values)
            self.frames += count
            text = show(result)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise
        finally:
            seconds = time.perf_counter() - started
            found = _intervals(result) if one.family == "retrieval" else ()
            self.calls.append(Record(one.name, shown, text, looked, seconds, cached, found))
        if isinstance(result, AnswerHandle) and not result.is_claim:
            self.answers.append(result)
        return _fresh(result)

    def _check_available(self, one: Module) -> None:
        if one.family in self.context.without:
            group = FAMILIES[one.family].lower()
            raise UnavailableError(f"{one.name}() cannot be used: this run is without {group}; do without it")
        missing = next((need for need in one.needs if not self.context.has(need)), None)
        if missing is not None:
            raise UnavailableError(f"{one.name}() cannot be used: {NEEDS[missing]}; do without it")

    def _result(self, one: Module, values: Mapping[str, Any]) -> tuple[CachedResult, bool]:
        def compute() -> CachedResult:
            call = CallContext(self.context, self._use_frames)
            return one.run(call, values), tuple(call.looked), call.used

        if not one.is_cached:
            return compute(), False
        key = (one.name, self.context.identity(one.family), _key(values))
        remembered, cached = self._memory.get(key, compute)
        if cached:
            self._use_frames(remembered[2])
        return remembered, cached


_cache: CallCache[CachedResult] = CallCache()


def shared_cache() -> CallCache[CachedResult]:
    """The memory that a process shares by default."""
    return _cache


def _key(value: Any) -> Hashable:
    """A value of checked arguments as part of a key."""
    if isinstance(value, Handle):
        return value.key
    if isinstance(value, Mapping):
        return tuple((name, _key(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(_key(one) for one in value)
    return (type(value).__name__, value)


def _fresh(value: Any) -> Any:
    """The same with lists of its own, so that what a caller does to them is not remembered."""
    if isinstance(value, list):
        return [_fresh(one) for one in value]
    if isinstance(value, tuple):
        return tuple(_fresh(one) for one in value)
    return value


def _intervals(value: Any) -> tuple[tuple[float, float], ...]:
    """Where in the video the clips and lines of a result lie, in seconds."""
    if isinstance(value, ClipHandle):
        return ((round(value.start, 3), round(value.end, 3)),)
    if isinstance(value, list | tuple):
        return tuple(one for part in value for one in _intervals(part))
    return ()


def _plain(value: Any) -> Any:
    """An argument as a trace keeps it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return value[:500]
    return show(value)
