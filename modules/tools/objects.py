"""The objects of a video by id: what a call returned is JSON with ids, which later calls accept. And what an
agent's calls looked at and found, in the order of the calls: the evidence of its answer.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from videopro.modules import ArgumentError
from videopro.modules.calls import (
    AnswerHandle,
    BoxHandle,
    ClipHandle,
    FrameHandle,
    HostHandle,
    LineHandle,
    ObjectKind,
    TrackHandle,
    VideoContext,
    show,
)
from videopro.modules.tools.pictures import frames_seen
from videopro.question import LETTERS
from videopro.storage import encodable, parse_json
from videopro.traces import FrameRef

VIDEO = "video"
"""The id of the whole video."""
# In a program they are there for habit's sake; in JSON they cost an agent's tokens.
_SECOND_NAMES = ("timestamp", "size")
_DIGITS = 4


class ObjectTable:
    """The objects that one agent was given: frames, clips, lines and boxes. Thread-safe."""

    def __init__(self, context: VideoContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._objects: dict[str, HostHandle] = {VIDEO: context.handle}
        self._ids: dict[Hashable, str] = {context.handle.key: VIDEO}
        self._counts: dict[str, int] = {}

    def as_json(self, value: Any) -> Any:
        """A result as JSON: an object as its id and its fields, equal objects with the same id."""
        if isinstance(value, AnswerHandle):
            return self._answer(value)
        if isinstance(value, HostHandle):
            return self._object(value)
        if isinstance(value, Mapping):
            return {str(name): self.as_json(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            parts = _without_intervals(value)
            return [self.as_json(part) for part in parts] if isinstance(parts, list) else self.as_json(*parts)
        if isinstance(value, float):
            return round(value, _DIGITS) if math.isfinite(value) else None
        if value is None or isinstance(value, bool | int):
            return value
        return encodable(value) if isinstance(value, str) else show(value)

    def id_of(self, handle: HostHandle) -> str:
        """The id of an object, a new one for an object that has none."""
        kind = handle.__program_kind__.lower()
        with self._lock:
            name = self._ids.get(handle.key)
            if name is not None:
                return name
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            name = f"{kind}-{number}"
            self._ids[handle.key], self._objects[name] = name, handle
            return name

    def resolve(self, kind: ObjectKind, value: Any) -> Any:
        """What an argument of this kind means: ids, times and intervals are replaced by
        objects. What is none of them is left to the module's own check. Raises ArgumentError for an unknown
        id, and for a time outside the video."""
        if kind == "segment":
            return self._segment(value)
        if kind == "frame":
            return self._frame(value)
        if kind == "frames":
            return self._frames(value)
        return self._named(value) if kind == "box" and isinstance(value, str | Mapping) else value

    def _answer(self, answer: AnswerHandle) -> dict[str, Any]:
        # No call takes an answer by an id: it is passed on as its text.
        described: dict[str, Any] = {"answer": answer.answer}
        if answer.choices and answer.answer in (letters := LETTERS[: len(answer.choices)]):
            described["choice"] = answer.choices[letters.index(answer.answer)]
        described["confidence"] = answer.confidence
        if answer.letters:
            described["probabilities"] = dict(answer.letters)
        if answer.raw_output.strip() != answer.answer:
            described["reply"] = answer.raw_output
        return {name: self.as_json(value) for name, value in described.items()}

    def _object(self, handle: HostHandle) -> dict[str, Any]:
        names = json_fields(type(handle))
        # No call takes a track.
        described = {} if "id" not in names else {"id": self.id_of(handle)}
        for name in names:
            if name != "id" and (value := self.as_json(getattr(handle, name))) not in (None, ""):
                described[name] = value
        return described

    def _named(self, value: str | Mapping[str, Any]) -> Any:
        """The object of an id, or of a whole object as a call returned it."""
        name = value.get("id") if isinstance(value, Mapping) else value
        with self._lock:
            handle = self._objects.get(name) if isinstance(name, str) else None
            counts = dict(self._counts)
        if handle is not None:
            return handle
        ranges = [f"{kind}-1" + (f" to {kind}-{most}" if most > 1 else "") for kind, most in counts.items()]
        raise ArgumentError(
            f"there is no object with the id {show(name, 80)}; the ids so far: {', '.join([VIDEO, *ranges])}"
        )

    def _segment(self, value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value)):
            return self._clip(*value)
        if isinstance(value, Mapping) and "id" not in value and {"start", "end"} <= value.keys():
            return self._segment([value["start"], value["end"]])
        return self._named(value) if isinstance(value, str | Mapping) else value

    def _clip(self, start: float, end: float) -> ClipHandle:
        video = self._context.handle
        first, last = max(start, 0.0), min(end, video.end)
        if not first < last:
            raise ArgumentError(
                f"[{start:g}, {end:g}] is no part of the video, which goes from 0 to {video.end:g} s; give "
                "[start, end] in seconds, start first"
            )
        return self._context.clip(first, last)

    def _frame(self, value: Any) -> Any:
        if _is_number(value):
            video = self._context.handle
            if not 0 <= value <= video.end:
                raise ArgumentError(
                    f"{value:g} s lies outside the video, which goes from 0 to {video.end:g} s"
                )
            return self._context.frame(float(value))
        return self._named(value) if isinstance(value, str | Mapping) else value

    def _frames(self, value: Any) -> Any:
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self._frames(part) for part in value]
        return self._frame(value)


def json_fields(kind: type[HostHandle]) -> list[str]:
    """The names in the JSON of an object; those that would be empty are left out of it."""
    if kind is AnswerHandle:
        return ["answer", "choice", "confidence", "probabilities", "reply"]
    left_out = (*_SECOND_NAMES, *(("subtitles",) if kind is LineHandle else ()))
    names = [name for name in kind.__program_fields__ if name not in left_out]
    return names if kind is TrackHandle else ["id", *names]


def box_shares(handle: BoxHandle, frame: FrameHandle) -> list[float]:
    """A box in shares of the whole picture, 0 to 1, whatever crop it was found in."""
    left, top, _, _ = frame.box or (0, 0, 0, 0)
    width, height = frame.video.width, frame.video.height
    corners = (
        (left + handle.x0) / width,
        (top + handle.y0) / height,
        (left + handle.x1) / width,
        (top + handle.y1) / height,
    )
    return [round(min(max(corner, 0.0), 1.0), _DIGITS) for corner in corners]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _without_intervals(value: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any]:
    """The parts of a list. Of a search that returned intervals beside their clips, the clips alone, which say
    the same."""
    parts = list(value)
    if len(parts) == 2 and isinstance(parts[1], list) and parts[1]:
        intervals, clips = parts
        if isinstance(intervals, list) and all(isinstance(clip, ClipHandle) for clip in clips):
            return (clips,)
    return parts


LONGEST_NAME = 100
_ARGUMENT_CHARS = 100_000


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool."""

    number: int
    """From 1."""
    name: str
    arguments: Mapping[str, Any]
    """As `read_arguments` has them."""
    reply: Mapping[str, Any]
    """What was returned, without the data of pictures."""
    seconds: float
    cached: bool = False
    frames: tuple[FrameRef, ...] = ()
    """The frames that it looked at."""
    result: Any = None
    """The module's own result."""
    about: Any = None
    """The frame or frames that it was about."""

    def as_json(self) -> dict[str, Any]:
        """The call for a log."""
        return {
            "number": self.number,
            "name": self.name,
            "arguments": dict(self.arguments),
            "reply": dict(self.reply),
            "frames": frames_seen(self.frames),
            "seconds": round(self.seconds, 3),
            "cached": self.cached,
        }


def read_arguments(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The arguments of a call as JSON; or none, and why they are too many, too long, or none that JSON can
    hold."""
    try:
        text = json.dumps(arguments, ensure_ascii=False)
        if len(text) <= _ARGUMENT_CHARS:
            return parse_json(text), ""
        return {}, f"the arguments have {len(text):,} characters; give at most {_ARGUMENT_CHARS:,}"
    except (TypeError, ValueError, RecursionError) as error:
        return {}, f"the arguments hold what JSON cannot ({error}); give texts, finite numbers and lists"


def evidence_of(call: ToolCall) -> list[dict[str, Any]]:
    """The pieces of evidence that a call gave: frames, intervals, subtitle lines, texts and boxes, each with
    its time in seconds; boxes are in shares of the whole picture."""
    source = f"call {call.number} {call.name}"
    seen = frames_seen(call.frames)
    pieces = list(_pieces(call))
    if seen and not pieces:
        times = [frame["time"] for frame in seen]
        single = seen[0] if len(seen) == 1 else {"time": None, "box": None}
        pieces = [_piece("frames", min(times), max(times), single["time"], single["box"])]
    return [{**piece, "source": source} for piece in pieces]


def _pieces(call: ToolCall) -> Iterator[dict[str, Any]]:
    if isinstance(call.result, str) and isinstance(call.about, FrameHandle):
        if call.result:
            seen = frames_seen(call.frames)
            box = seen[0]["box"] if seen else None
            time = call.about.time
            yield _piece("text", time, time, time, box, call.result)
        return
    for value in _flat(call.result):
        if isinstance(value, LineHandle):
            yield _piece("subtitle", value.start, value.end, text=value.text)
        elif isinstance(value, ClipHandle):
            yield _piece("interval", value.start, value.end)
        elif isinstance(value, BoxHandle) and isinstance(call.about, FrameHandle):
            time = call.about.time
            yield _piece("box", time, time, time, box_shares(value, call.about), value.label)
        elif isinstance(value, TrackHandle) and call.about:
            yield _first_sight(value, call.about[0])


def _first_sight(track: TrackHandle, frame: FrameHandle) -> dict[str, Any]:
    time, corners = next((t, box) for t, box in zip(track.times, track.boxes, strict=True) if box)
    box = box_shares(BoxHandle(*corners, track.label, track.score), frame)
    return _piece("box", track.start, track.end, time, box, track.label)


def _piece(
    kind: str,
    start: float,
    end: float,
    time: float | None = None,
    box: Sequence[float] | None = None,
    text: str | None = None,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "start": round(start, 3),
        "end": round(end, 3),
        "time": None if time is None else round(time, 3),
        "box": None if box is None else list(box),
        "text": text,
    }


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value
