"""The tools of one video, and opening it for an agent: their schemas, their calls, how much these may use
(calls, frames, seconds), and what they result.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from videopro.backbones import find_video
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
from videopro.modules.tools.models import ToolModels, as_models
from videopro.modules.tools.objects import (
    LONGEST_NAME,
    ObjectTable,
    evidence_of,
    read_arguments,
)
from videopro.modules.tools.pictures import LOOK, Picture, frames_seen, reply_text, tool_messages
from videopro.modules.tools.schemas import as_function, module_schema
from videopro.storage import InvalidJson, parse_json, stored_text
from videopro.video import Subtitles, Video, load_subtitles, subtitles_of


class BudgetError(ModuleError):
    """A call that the budget does not allow; the message says what is left."""


@dataclass(frozen=True)
class Budget:
    """Limits of all calls together; None: no limit."""

    calls: int | None = None
    frames: int | None = None
    """Frames that calls look at; one that is looked at twice counts twice."""
    seconds: float | None = None
    """Time within calls. The one that exceeds it ends; the next is refused."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ConfigError(f"budget: {limit.name} is {value!r}; it must be above 0, or None")


class Spending:
    """What calls have used of a budget. Thread-safe."""

    def __init__(self, budget: Budget) -> None:
        self._limits = {name: limit for name, limit in asdict(budget).items() if limit is not None}
        self._used = {"calls": 0, "frames": 0, "seconds": 0.0}
        self._lock = threading.Lock()

    def begin_call(self) -> None:
        """Count a call. Raises BudgetError if there is none left, or no time."""
        with self._lock:
            for name in ("calls", "seconds"):
                if name in self._limits and self._used[name] >= self._limits[name]:
                    raise BudgetError(
                        f"the budget of {self._limits[name]:g} {name} is used up; answer from what was seen "
                        "so far"
                    )
            self._used["calls"] += 1

    def use_frames(self, count: int) -> None:
        """Count frames, before they are decoded. Raises BudgetError if so many are not left; then none are
        counted, and a smaller call may follow."""
        with self._lock:
            most = self._limits.get("frames")
            if most is not None and (left := most - self._used["frames"]) < count:
                advice = "look at fewer" if left else "answer from what was seen so far"
                raise BudgetError(
                    f"this call looks at {count} frames, and {left} of the {most} of the budget are left; "
                    f"{advice}"
                )
            self._used["frames"] += count

    def end_call(self, seconds: float) -> None:
        """Count the time of a call."""
        with self._lock:
            self._used["seconds"] += seconds

    def used(self) -> dict[str, float]:
        """Calls, frames and seconds so far."""
        with self._lock:
            return {name: round(amount, 3) for name, amount in self._used.items()}

    def left(self) -> dict[str, float]:
        """What is left of each limit that the budget has."""
        used = self.used()
        return {name: round(max(0, limit - used[name]), 3) for name, limit in self._limits.items()}


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
        self._offered, self._lacking = self._tools(only)
        self._lock = threading.Lock()
        # Needs no lock: a step of this counter is never shared by two threads.
        self._numbers = itertools.count(1)
        self._calls: list[dict[str, Any]] = []
        self._evidence: list[dict[str, Any]] = []

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
            as_function(schema, partial(self._replied, schema["function"]["name"], reply), returns)
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
        number, started = next(self._numbers), time.monotonic()
        # One for each call: what it records is this call alone, also while other threads make theirs.
        library = ModuleLibrary(self.context, use_frames=self._spending.use_frames)
        resolved: dict[str, Any] = {}
        result: Any = None
        images: list[dict[str, Any]] = []
        try:
            # Wrong calls count too, or an agent could go on making them for ever.
            self._spending.begin_call()
            module = self._tool(name)
            if wrong:
                raise ArgumentError(f"{name}(): {wrong}")
            resolved = self._resolved(module, given)
            result = library.function(module)(**resolved)
            if isinstance(result, list) and result and isinstance(result[0], Picture):
                images = [{"id": self._objects.id_of(each.handle), **each.as_json()} for each in result]
                result = [each.handle for each in result]
            reply = {"result": self._objects.as_json(result)}
        except Exception as error:
            reply = {"error": _described(name, error)}
        seconds = time.monotonic() - started
        self._spending.end_call(seconds)
        if left := self._spending.left():
            reply["left"] = left
        record = library.calls[0] if library.calls else None
        seen = [] if record is None else frames_seen(record.frames)
        entry = {
            "number": number,
            "name": name,
            "arguments": given,
            # Without the data of pictures, which would fill the log.
            "reply": dict(reply),
            "frames": seen,
            "seconds": round(seconds, 3),
            "cached": record is not None and record.cached,
        }
        about = resolved.get("frame", resolved.get("frames"))
        pieces = evidence_of(f"call {number} {name}", result, about, seen)
        with self._lock:
            self._calls.append(entry)
            self._evidence += pieces
        return {**reply, "images": images} if images else reply

    def call_text(self, name: str, arguments: str) -> dict[str, Any]:
        """As `call`, with the arguments as a model wrote them: the text of a JSON object, which may be
        broken."""
        try:
            parsed = parse_json(arguments or "{}")
        except InvalidJson as error:
            message = f"are not JSON ({error}); write one JSON object"
        else:
            if isinstance(parsed, dict):
                return self.call(name, **parsed)
            message = "must be a JSON object, such as {}"
        return {"error": {"type": "ArgumentError", "message": f"{name}(): the arguments {message}"}}

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
            return [dict(call) for call in self._calls]

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """What the calls looked at and result, piece by piece: frames, intervals, subtitle lines, texts and
        boxes, each with its time in seconds and the call that it comes from."""
        with self._lock:
            return [dict(piece) for piece in self._evidence]

    def _replied(self, name: str, reply: Callable[[Mapping[str, Any]], Any], **arguments: Any) -> Any:
        return reply(self.call(name, **arguments))

    def _tools(self, only: Sequence[str] | None) -> tuple[dict[str, Module], dict[str, Module]]:
        """The tools that are offered, and the modules that lack something on this video."""
        lacking = self.context.modules(is_open=self._is_open)
        there = [lacking.pop(each.name) for each in available_modules(self.context, is_open=self._is_open)]
        shown = [each for each in there if each.is_documented and each.name not in _PROGRAMS_ONLY]
        shown.sort(key=lambda module: list(FAMILIES).index(module.family))
        tools = {module.name: module for module in [*shown, LOOK]}
        for name in only or ():
            if name not in tools:
                raise ConfigError(f"only: no tool {name!r} for this video; {did_you_mean(name, list(tools))}")
        return (tools if only is None else {name: tools[name] for name in only}), lacking

    def _tool(self, name: str) -> Module:
        # The library says what a module lacks that is called all the same.
        module = self._offered.get(name) or self._lacking.get(name)
        if module is None or name in _PROGRAMS_ONLY:
            raise ArgumentError(f"there is no tool {name!r}; {did_you_mean(name, self.names)}")
        return module

    def _resolved(self, module: Module, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with objects in place of their ids; others are checked by the module's library. What
        is to be searched is the whole video unless a call says so."""
        parameters = {parameter.name: parameter for parameter in module.parameters}
        resolved: dict[str, Any] = {
            parameter.name: self.context.handle
            for parameter in module.parameters
            if parameter.kind.objects == "segment" and parameter.is_required
        }
        for keyword, value in arguments.items():
            name = ALIASES.get(keyword, keyword)
            parameter = parameters.get(name)
            if parameter is None:
                resolved[keyword] = value
            # Models write null for what they leave out.
            elif value is not None or (name not in resolved and parameter.is_required):
                kind = parameter.kind.objects
                try:
                    resolved[name] = value if kind is None else self._objects.resolve(kind, value)
                except ArgumentError as error:
                    raise ArgumentError(f"{module.name}(): {keyword}: {error}") from None
        return resolved


def _described(name: str, error: Exception) -> dict[str, str]:
    """A failure as an agent reads it. Raises the machine's own errors, which no call can mend."""
    if is_machines(error):
        raise error
    if isinstance(error, ModuleError):
        return {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, VideoProError) and not isinstance(error, UnexpectedError):
        logger.warning("%s(): %s", name, error)
        return {"type": type(error).__name__, "message": f"{name}(): {error}"}
    # The agent goes on: a bug in one tool is no reason to lose what the others found.
    logger.error("%s(): an unexpected exception", name, exc_info=error)
    unexpected = error if isinstance(error, UnexpectedError) else as_unexpected(error)
    message = f"{name}() failed unexpectedly ({unexpected}); try other arguments, or do without it"
    return {"type": "UnexpectedError", "message": message}


def open_video(
    path: str | os.PathLike[str],
    subtitles: str | os.PathLike[str] | bool = True,
    models: ToolModels | Mapping[str, Any] | str | None = None,
    *,
    budget: Budget | None = None,
    options: bool = False,
    only: Sequence[str] | None = None,
) -> VideoTools:
    """The tools of a video file. Its clips are indexed first, once, if there is a clip encoder.

    `subtitles`: a subtitle file, or a video file with embedded subtitles; True: those in the video, else
    those beside it (film.srt, film.en.srt), if there are any; False: none. `models`: a VideoLLM by name, as
    `--model` takes it; or a mapping with "model", its "backbone" settings, and the modules' models
    ("encoder", "text_encoder", "ocr", "detector", "tracker", "speech"); or `load_models(...)` for many
    videos. Without a model, nothing is downloaded: an agent searches subtitles, reads text and looks at
    frames itself. `budget`: what all calls may use together. `options`: offer the modules in their forms for
    questions with options. `only`: the names of the tools to offer; None: all that the video and the models
    allow. Raises VideoProError for what the caller can fix.
    """
    file = find_video(Path(path))
    loaded = as_models(models)
    loaded.check_video(file)
    video = Video.open(file)
    context = loaded.context(video, _subtitles(file, video, subtitles))
    return VideoTools(context, budget or Budget(), is_open=not options, only=only)


def _subtitles(file: Path, video: Video, named: str | os.PathLike[str] | bool) -> Subtitles | None:
    source = subtitles_of(file) if named is True else None if named is False else Path(named)
    return None if source is None else load_subtitles(source, duration=video.duration)
