"""What the calls of an agent looked at and found, in the order of the calls: the evidence of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from videopro.modules.calls import BoxHandle, ClipHandle, FrameHandle, LineHandle, TrackHandle
from videopro.modules.tools.objects import box_shares
from videopro.modules.tools.pictures import frames_seen
from videopro.storage import parse_json, stored_number, stored_text
from videopro.traces import FrameRef

LONGEST_NAME = 100
_MOST_ARGUMENTS, _ARGUMENT_CHARS = 32, 100_000


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
    """The arguments of a call as JSON, and what is wrong with them: one that JSON cannot hold, or that is too
    long, stands as words in its place."""
    read: dict[str, Any] = {}
    for name, value in islice(arguments.items(), _MOST_ARGUMENTS):
        read[stored_text(name, LONGEST_NAME)] = _read(value)
    wrong = [f"{name}: {value}" for name, value in read.items() if isinstance(value, _Wrong)]
    if len(arguments) > _MOST_ARGUMENTS:
        wrong.append(f"these are {len(arguments):,} arguments; give at most {_MOST_ARGUMENTS}")
    return read, "; ".join(wrong)


class _Wrong(str):
    """What is wrong with an argument."""


def _read(value: Any) -> Any:
    try:
        text = json.dumps(value, ensure_ascii=False)
        if len(text) > _ARGUMENT_CHARS:
            return _Wrong(f"has {len(text):,} characters; give at most {_ARGUMENT_CHARS:,}")
        return parse_json(text)
    except (TypeError, ValueError, RecursionError):
        what = stored_number(value) if isinstance(value, int | float) else type(value).__name__
        return _Wrong(f"is or holds what JSON cannot ({what}); give texts, finite numbers and lists")


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
