"""The tools of one video, and opening it for an agent: their schemas, their calls, how much these may use
(calls, frames, seconds), and what they result.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

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
from videopro.modules import ArgumentError, ModuleError, VideoContext, available_modules
from videopro.modules.calls import NEEDS, PLUGIN_MODULES
from videopro.modules.errors import UnavailableError
from videopro.modules.tools.calling import LONGEST_NAME, Tell, Tool, ToolCall, as_function, read_arguments
from videopro.modules.tools.images import reply_text, tool_messages
from videopro.modules.tools.models import ToolModels, as_models
from videopro.modules.tools.plugins import plugin_tool
from videopro.modules.tools.vocabulary import TOOLS
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


_ENOUGH = "answer from what was seen so far"


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
                if self._used[name] >= self._limits.get(name, math.inf):
                    raise BudgetError(f"the budget of {self._limits[name]:g} {name} is used up; {_ENOUGH}")
            self._used["calls"] += 1

    def use_frames(self, count: int) -> None:
        """Count frames, before they are decoded. Raises BudgetError if so many are not left; then none are
        counted, and a smaller call may follow."""
        with self._lock:
            if (left := self._limits.get("frames", math.inf) - self._used["frames"]) < count:
                advice = "look at fewer" if left else _ENOUGH
                raise BudgetError(f"this call looks at {count} frames, and {left} are left; {advice}")
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

_NEEDS = {**NEEDS, "model": "no model is set up"}


class VideoTools:
    """The tools of one video for one agent. Several calls may be made at a time, from several threads."""

    def __init__(
        self,
        context: VideoContext,
        budget: Budget,
        *,
        only: Sequence[str] | None = None,
        tell: Tell = lambda doing, done=None, total=None: None,
    ) -> None:
        """Use `open_video`. `only`: the names of the tools to offer; `tell` receives the progress of calls.
        Raises ConfigError for a tool that cannot be offered."""
        self.context = context
        self._spending = Spending(budget)
        self._tell = tell
        self._has = {"", *filter(context.has, NEEDS)}
        if "answering" not in context.without:
            self._has.add("model")
        self._offered = self._tools(only)
        self._lock = threading.Lock()
        # Needs no lock: a step of this counter is never shared by two threads.
        self._numbers = itertools.count(1)
        self._calls: list[dict[str, Any]] = []
        self._evidence: list[dict[str, Any]] = []

    # What an agent reads

    @property
    def video(self) -> dict[str, Any]:
        """The video: its duration in seconds, its size in pixels, and whether it has subtitles."""
        described = {name: getattr(self.context.video, name) for name in ("duration", "width", "height")}
        return {**described, "has_subtitles": self.context.subtitles is not None}

    @property
    def names(self) -> list[str]:
        """The names of the tools that can be used on this video."""
        return list(self._offered)

    def schemas(self) -> list[dict[str, Any]]:
        """The tools in the form of OpenAI's `tools`: name, description, and parameters as JSON Schema."""
        return [tool.schema for tool in self._offered.values()]

    def functions(
        self, reply: Callable[[Mapping[str, Any]], Any] = reply_text, returns: Any = str
    ) -> list[Callable[..., Any]]:
        """The tools as Python functions with signatures and docstrings, for libraries that read these.
        `reply`: what a function makes of what `call` returns, and `returns` the annotation of that."""
        return [
            as_function(tool, partial(self._replied, name, reply), returns)
            for name, tool in self._offered.items()
        ]

    # Calls

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool with JSON values.

        Returns {"result": ...}, with "images" if the tool gives some, or {"error": {"type", "message"}} if
        the call failed; both with what is left of the budget, "left", if it has limits. Raises what the agent
        can do nothing about: the machine's own errors, and Cancelled.
        """
        check_cancelled()
        name, (given, wrong) = stored_text(name, LONGEST_NAME), read_arguments(arguments)
        number, started = next(self._numbers), time.monotonic()
        # One for each call: what it records is this call alone, also while other threads make theirs.
        call = ToolCall(name, self.context, self._spending.use_frames, self._tell, number)
        try:
            # Wrong calls count too, or an agent could make them forever.
            self._spending.begin_call()
            tool = self._tool(name)
            if wrong:
                raise ArgumentError(f"{name}(): {wrong}")
            result = tool.run(call, **tool.checked(given))
            reply = {"result": result.model_dump() if isinstance(result, BaseModel) else result}
        except Exception as error:
            call.images, call.evidence = [], []
            reply = {"error": _described(name, error)}
        seconds = time.monotonic() - started
        self._spending.end_call(seconds)
        if left := self._spending.left():
            reply["left"] = left
        made = call.library.calls
        entry = {
            "number": number,
            "name": name,
            "arguments": given,
            # Without the data of images, which would fill the log.
            "reply": dict(reply),
            "frames": call.frames,
            "seconds": round(seconds, 3),
            "cached": bool(made) and all(each.cached for each in made),
        }
        with self._lock:
            self._calls.append(entry)
            self._evidence += [piece.model_dump() for piece in call.evidence]
        return {**reply, "images": call.images} if call.images else reply

    def call_text(self, name: str, arguments: str) -> dict[str, Any]:
        """As `call`, with the arguments as a model wrote them: the text of a JSON object, which may be
        broken."""
        try:
            parsed = parse_json(arguments or "{}")
        except InvalidJson as error:
            parsed = f"invalid JSON ({error})"
        if isinstance(parsed, dict):
            return self.call(name, **parsed)
        message = f"{name}(): the arguments must be a JSON object, not {str(parsed)[:LONGEST_NAME]}"
        return {"error": {"type": "ArgumentError", "message": message}}

    def answer(self, tool_calls: Iterable[Any]) -> list[dict[str, Any]]:
        """Make the calls of an assistant's message of the `openai` client (`message.tool_calls`). Returns the
        messages that answer them; images come last, in a message of the user."""
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
        """What the calls looked at and found, piece by piece: frames, intervals, subtitle lines, texts and
        boxes, each with its time in seconds and the call that it comes from."""
        with self._lock:
            return [dict(piece) for piece in self._evidence]

    def _replied(self, name: str, reply: Callable[[Mapping[str, Any]], Any], /, **arguments: Any) -> Any:
        return reply(self.call(name, **arguments))

    def _tools(self, only: Sequence[str] | None) -> dict[str, Tool]:
        tools = {name: tool for name, tool in TOOLS.items() if tool.need in self._has}
        for module in available_modules(self.context):
            if PLUGIN_MODULES.get(module.name) is module:
                if module.name in TOOLS:
                    raise ConfigError(
                        f"extra_modules: {module.name}() has the name of a tool; rename the function"
                    )
                tools[module.name] = plugin_tool(module)
        for name in only or ():
            if name not in tools:
                raise ConfigError(f"only: no tool {name!r} for this video; {did_you_mean(name, list(tools))}")
        return tools if only is None else {name: tools[name] for name in only}

    def _tool(self, name: str) -> Tool:
        if (tool := self._offered.get(name)) is not None:
            return tool
        if name in TOOLS and (need := TOOLS[name].need) not in self._has:
            raise UnavailableError(f"{name}() cannot be used: {_NEEDS[need]}; do without it")
        raise ArgumentError(f"there is no tool {name!r}; {did_you_mean(name, self.names)}")


def _described(name: str, error: Exception) -> dict[str, str]:
    """A failure as an agent reads it. Raises the machine's own errors, which no call can mend."""
    if is_machines(error):
        raise error
    if isinstance(error, ModuleError):
        return {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, VideoProError) and not isinstance(error, UnexpectedError):
        logger.warning("%s(): %s", name, error)
        return {"type": type(error).__name__, "message": f"{name}(): {error}"}
    # The agent continues: a bug in one tool is no reason to lose what the others found.
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
    only: Sequence[str] | None = None,
) -> VideoTools:
    """The tools of a video file. Its clips are indexed first, once, if there is a clip encoder.

    `subtitles`: a subtitle file, or a video file with embedded subtitles; True: those in the video, else
    those next to it (video.srt, video.en.srt), if there are any; False: none. `models`: a VideoLLM by name,
    as `--model` takes it; or a mapping with "model", its "backbone" settings, and the modules' models
    ("encoder", "text_encoder", "ocr", "detector", "tracker", "speech", "extra_modules"); or
    `load_models(...)` for many videos. Without a model, nothing is downloaded: an agent searches subtitles,
    reads text and looks at frames itself. `budget`: what all calls may use together. `only`: the names of the
    tools to offer; None: all that the video and the models allow. Raises VideoProError for what the caller
    can fix.
    """
    file = find_video(Path(path))
    loaded = as_models(models)
    loaded.check_video(file)
    video = Video.open(file)
    context = loaded.context(video, _subtitles(file, video, subtitles))
    return VideoTools(context, budget or Budget(), only=only)


def _subtitles(file: Path, video: Video, named: str | os.PathLike[str] | bool) -> Subtitles | None:
    source = subtitles_of(file) if named is True else None if named is False else Path(named)
    return None if source is None else load_subtitles(source, duration=video.duration)
