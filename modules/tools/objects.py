"""The objects of a video by id: what a call returned is JSON with ids, which later calls accept. And what an
agent's calls looked at and found, in the order of the calls: the evidence of its answer.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
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
from videopro.question import LETTERS
from videopro.storage import encodable, parse_json

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
        match value:
            case AnswerHandle():
                return self._answer(value)
            case HostHandle():
                return self._object(value)
            case Mapping():
                return {str(name): self.as_json(part) for name, part in value.items()}
            # (intervals, clips): the clips alone, which say the same.
            case ([*_], [ClipHandle(), *_] as clips):
                return self.as_json(clips)
            case list() | tuple():
                return [self.as_json(part) for part in value]
            case float():
                # JSON has no NaN and no infinity.
                return round(value, _DIGITS) if math.isfinite(value) else None
            case str():
                return encodable(value)
            case None | bool() | int():
                return value
        return show(value)

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
        """What an argument of this kind means: ids, times and intervals are replaced by objects. What is none
        of them is left to the module's own check. Raises ArgumentError for an unknown id, and for a time
        outside the video."""
        match value:
            case [*parts] if kind == "frames":
                return [self.resolve(kind, part) for part in parts]
            # The whole object as a call returned it, which some models pass.
            case str() | {"id": str()}:
                return self._named(value if isinstance(value, str) else value["id"])
            case [start, end] | {"start": start, "end": end} if kind == "segment" and _are_numbers(
                start, end
            ):
                return self._clip(start, end)
        return self._at(value) if kind in ("frame", "frames") and _are_numbers(value) else value

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

    def _named(self, name: str) -> HostHandle:
        with self._lock:
            if (handle := self._objects.get(name)) is not None:
                return handle
            counts = dict(self._counts)
        ranges = [f"{kind}-1" + (f" to {kind}-{most}" if most > 1 else "") for kind, most in counts.items()]
        raise ArgumentError(
            f"there is no object with the id {show(name, 80)}; the ids so far: {', '.join([VIDEO, *ranges])}"
        )

    def _clip(self, start: float, end: float) -> ClipHandle:
        # Cut to the video: models round its length up.
        first, last = max(start, 0.0), min(end, self._context.handle.end)
        if not first < last:
            raise ArgumentError(
                f"[{start:g}, {end:g}] is no part of the video, which goes from 0 to "
                f"{self._context.handle.end:g} s; give [start, end] in seconds, start first"
            )
        return self._context.clip(first, last)

    def _at(self, time: float) -> FrameHandle:
        if not 0 <= time <= (end := self._context.handle.end):
            raise ArgumentError(f"{time:g} s lies outside the video, which goes from 0 to {end:g} s")
        return self._context.frame(float(time))


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


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in values)


LONGEST_NAME = 100
_ARGUMENT_CHARS = 100_000


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


def evidence_of(
    source: str, result: Any, about: Any, seen: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The pieces of evidence that a call gave: frames, intervals, subtitle lines, texts and boxes, each with
    its time in seconds; boxes are in shares of the whole picture. `about`: the frame or frames that it was
    about; `seen`: those that it looked at, as `frames_seen` has them."""
    pieces = [*_pieces(result, about, seen)]
    # What was looked at stands for what was found there: an answer is no evidence of itself.
    if seen and not pieces and not (isinstance(result, str) and isinstance(about, FrameHandle)):
        times = [frame["time"] for frame in seen]
        single = seen[0] if len(seen) == 1 else {"time": None, "box": None}
        pieces = [_piece("frames", min(times), max(times), single["time"], single["box"])]
    return [{**piece, "source": source} for piece in pieces]


def _pieces(value: Any, about: Any, seen: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    match value:
        case list() | tuple():
            for part in value:
                yield from _pieces(part, about, seen)
        case LineHandle():
            yield _piece("subtitle", value.start, value.end, text=value.text)
        case ClipHandle():
            yield _piece("interval", value.start, value.end)
        case str() if value and isinstance(about, FrameHandle):
            yield _piece("text", about.time, about.time, about.time, seen[0]["box"] if seen else None, value)
        case BoxHandle() if isinstance(about, FrameHandle):
            yield _piece("box", about.time, about.time, about.time, box_shares(value, about), value.label)
        case TrackHandle() if about:
            # Where it is first seen.
            time, corners = next((t, box) for t, box in zip(value.times, value.boxes, strict=True) if box)
            box = box_shares(BoxHandle(*corners, value.label, value.score), about[0])
            yield _piece("box", value.start, value.end, time, box, value.label)


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
