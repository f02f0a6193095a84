"""The tools of one video: their schemas, their calls, what they may use, and what they result."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from videopro.cli import did_you_mean
from videopro.errors import (
    ConfigError,
    UnexpectedError,
    VideoProError,
    as_unexpected,
    check_cancelled,
    is_machines,
)
from videopro.modules import ArgumentError, ModuleError, ModuleLibrary, VideoContext, available_modules
from videopro.modules.calls import ALIASES, FAMILIES, Module
from videopro.modules.tools.budget import Budget, Spending
from videopro.modules.tools.evidence import LONGEST_NAME, ToolCall, evidence_of, read_arguments
from videopro.modules.tools.functions import as_function
from videopro.modules.tools.objects import VIDEO, ObjectTable
from videopro.modules.tools.parameters import object_kind
from videopro.modules.tools.pictures import LOOK, Picture
from videopro.modules.tools.replies import reply_text, tool_messages
from videopro.modules.tools.schemas import module_schema
from videopro.storage import InvalidJson, parse_json, stored_text

logger = logging.getLogger(__name__)

# It puts together what a program returns; an agent answers in its own words.
_PROGRAMS_ONLY = ("make_result",)


class VideoTools:
    """The tools of one video for one agent. Several calls may be made at a time, from several threads."""

    def __init__(
        self,
        context: VideoContext,
        budget: Budget,
        *,
        is_open: bool = True,
        only: Sequence[str] | None = None,
    ) -> None:
        """Use `open_video`. `is_open`: the modules in their forms for open questions; `only`: the names of
        the tools to offer. Raises ConfigError for one that cannot be."""
        self.context = context
        self._spending = Spending(budget)
        self._objects = ObjectTable(context)
        self._is_open = is_open
        self._offered = self._tools(only)
        self._lock = threading.Lock()
        self._numbers = 0
        self._calls: list[ToolCall] = []

    # What an agent is told

    @property
    def video(self) -> dict[str, Any]:
        """The video: its id, duration in seconds, size in pixels and rate, and whether it has subtitles."""
        described: dict[str, Any] = self._objects.as_json(self.context.handle)
        return {**described, "has_subtitles": self.context.subtitles is not None}

    @property
    def names(self) -> list[str]:
        """The names of the tools that can be used on this video."""
        return list(self._offered)

    def schemas(self) -> list[dict[str, Any]]:
        """The tools in the form of OpenAI's `tools`: name, description, and parameters as JSON Schema."""
        return [module_schema(module) for module in self._offered.values()]

    def functions(
        self, reply: Callable[[Mapping[str, Any]], Any] = reply_text, returns: Any = str
    ) -> list[Callable[..., Any]]:
        """The tools as Python functions with signatures and docstrings, for libraries that read these.
        `reply`: what a function makes of what `call` returns, and `returns` the annotation of that."""
        return [
            as_function(schema, self._replying(schema["function"]["name"], reply), returns)
            for schema in self.schemas()
        ]

    # Calls

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool with JSON values; objects are named by the ids that earlier calls returned.

        Returns {"result": ...}, with "images" if pictures were asked for, or {"error": {"type", "message"}}
        if the call failed; both with what is left of the budget, "left", if it has limits. Raises what the
        agent can do nothing about: the machine's own errors, and Cancelled.
        """
        check_cancelled()
        name, (given, wrong) = stored_text(name, LONGEST_NAME), read_arguments(arguments)
        with self._lock:
            self._numbers += 1
            number = self._numbers
        started = time.monotonic()
        library = ModuleLibrary(self.context, use_frames=self._spending.use_frames)
        resolved: dict[str, Any] = {}
        result: Any = None
        reply: dict[str, Any] = {}
        images: list[dict[str, Any]] = []
        try:
            self._spending.begin_call()
            module = self._tool(name)
            if wrong:
                raise ArgumentError(f"{name}(): {wrong}")
            resolved |= self._resolved(module, given)
            result = library.function(module)(**resolved)
            images = self._images(result)
            result = (
                [part.handle if isinstance(part, Picture) else part for part in result] if images else result
            )
            reply = {"result": self._objects.as_json(result)}
        except Exception as error:
            reply = {"error": _described(name, error)}
        seconds = time.monotonic() - started
        self._spending.end_call(seconds)
        if left := self._spending.left():
            reply["left"] = left
        record = library.calls[0] if library.calls else None
        call = ToolCall(
            number,
            name,
            given,
            reply,
            seconds,
            cached=record is not None and record.cached,
            frames=() if record is None else record.frames,
            result=result,
            about=resolved.get("frame", resolved.get("frames")),
        )
        with self._lock:
            self._calls.append(call)
        return {**reply, "images": images} if images else reply

    def call_text(self, name: str, arguments: str) -> dict[str, Any]:
        """As `call`, with the arguments as a model wrote them: the text of a JSON object, which may be
        broken."""
        try:
            parsed = parse_json(arguments or "{}")
        except InvalidJson as error:
            message = f"{name}(): the arguments are not JSON ({error}); write one JSON object"
            return {"error": {"type": "ArgumentError", "message": message}}
        if not isinstance(parsed, dict):
            message = f"{name}(): the arguments must be a JSON object, such as {{}}"
            return {"error": {"type": "ArgumentError", "message": message}}
        return self.call(name, **parsed)

    def answer(self, tool_calls: Iterable[Any]) -> list[dict[str, Any]]:
        """Make the calls of an assistant's message of the `openai` client (`message.tool_calls`). Returns the
        messages that answer them; pictures come last, in a message of the user."""
        return tool_messages(
            (each.id, self.call_text(each.function.name, each.function.arguments)) for each in tool_calls
        )

    # What was done

    @property
    def used(self) -> dict[str, float]:
        """Calls, frames and seconds so far."""
        return self._spending.used()

    @property
    def left(self) -> dict[str, float]:
        """What is left of each limit of the budget."""
        return self._spending.left()

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The log: each call with its arguments, its reply, the frames that it looked at and its time, in
        the order in which they ended."""
        with self._lock:
            return [call.as_json() for call in self._calls]

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """What the calls looked at and result, piece by piece: frames, intervals, subtitle lines, texts and
        boxes, each with its time in seconds and the call that it comes from."""
        with self._lock:
            return [piece for call in self._calls for piece in evidence_of(call)]

    def _tools(self, only: Sequence[str] | None) -> dict[str, Module]:
        families = list(FAMILIES)
        modules = [
            module
            for module in available_modules(self.context, is_open=self._is_open)
            if module.is_documented and module.name not in _PROGRAMS_ONLY
        ]
        modules.sort(key=lambda module: families.index(module.family))
        tools = {module.name: module for module in [*modules, LOOK]}
        if only is None:
            return tools
        for name in only:
            if name not in tools:
                raise ConfigError(f"only: no tool {name!r} for this video; {did_you_mean(name, list(tools))}")
        return {name: tools[name] for name in only}

    def _tool(self, name: str) -> Module:
        if name in self._offered:
            return self._offered[name]
        registered = self.context.modules(is_open=self._is_open)
        # The library says what such a module lacks on this video.
        if name in registered and name not in _PROGRAMS_ONLY and not self._has_all(registered[name]):
            return registered[name]
        raise ArgumentError(f"there is no tool {name!r}; {did_you_mean(name, self.names)}")

    def _has_all(self, module: Module) -> bool:
        missing = any(not self.context.has(need) for need in module.needs)
        return not missing and module.family not in self.context.without

    def _resolved(self, module: Module, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with objects in place of their ids; others are checked by the module's library."""
        parameters = {parameter.name: parameter for parameter in module.parameters}
        resolved: dict[str, Any] = {}
        for keyword, value in arguments.items():
            name = ALIASES.get(keyword, keyword)
            parameter = parameters.get(name)
            # Models write null for what they leave out.
            if value is None and parameter is not None and (name == VIDEO or not parameter.is_required):
                continue
            kind = None if parameter is None else object_kind(parameter)
            try:
                resolved[keyword] = value if kind is None else self._objects.resolve(kind, value)
            except ArgumentError as error:
                raise ArgumentError(f"{module.name}(): {keyword}: {error}") from None
        for parameter in module.parameters:
            if object_kind(parameter) == "segment" and parameter.is_required:
                names = {ALIASES.get(keyword, keyword) for keyword in resolved}
                if parameter.name not in names:
                    resolved[parameter.name] = self.context.handle
        return resolved

    def _images(self, result: Any) -> list[dict[str, Any]]:
        parts = result if isinstance(result, list) else []
        return [
            {"id": self._objects.id_of(part.handle), **part.as_json()}
            for part in parts
            if isinstance(part, Picture)
        ]

    def _replying(self, name: str, reply: Callable[[Mapping[str, Any]], Any]) -> Callable[..., Any]:
        return lambda **arguments: reply(self.call(name, **arguments))


def _described(name: str, error: Exception) -> dict[str, str]:
    """A failure as an agent reads it. Raises the machine's own errors, which no call can mend."""
    if is_machines(error):
        raise error
    if isinstance(error, ModuleError):
        return {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, VideoProError) and not isinstance(error, UnexpectedError):
        logger.warning("%s(): %s", name, error)
        return {"type": type(error).__name__, "message": f"{name}(): {error}"}
    logger.error("%s(): an unexpected exception", name, exc_info=error)
    unexpected = error if isinstance(error, UnexpectedError) else as_unexpected(error)
    message = f"{name}() failed unexpectedly ({unexpected}); try other arguments, or do without it"
    return {"type": "UnexpectedError", "message": message}
