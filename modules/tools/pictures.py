"""Frames as JPEG or PNG, for agents that look at them themselves; and a tool's reply in the forms that chat
models take: text, or text with pictures.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from videopro.modules import ArgumentError
from videopro.modules.calls import (
    CallContext,
    Count,
    FrameHandle,
    Frames,
    Module,
    Text,
    frame_refs,
    module_of,
)
from videopro.traces import FrameRef
from videopro.video import Frame

FORMATS = ("jpeg", "png")
MOST_PICTURES = 32
"""Frames of one call."""
SIDE = 768
"""The longer side of a picture in pixels, unless a call says otherwise."""
_SMALLEST_SIDE, _LARGEST_SIDE = 16, 4096
_QUALITY = 90


@dataclass(frozen=True)
class Picture:
    """A frame with its picture."""

    handle: FrameHandle
    mime_type: str
    width: int
    height: int
    data: bytes = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """The picture as JSON, its data in base64."""
        data = base64.b64encode(self.data).decode("ascii")
        size = {"width": self.width, "height": self.height}
        return {"time": round(self.handle.time, 3), "mime_type": self.mime_type, **size, "data": data}


def look(call: CallContext, frames: Frames, side: Count = SIDE, format: Text = "jpeg") -> list[Picture]:
    """Look at frames yourself: their pictures come with the reply. `side` is the longer side of a picture in
    pixels, at most; `format` is jpeg or png. Crop first to see a detail in the video's own resolution.

    Returns the frames in order of time.
    """
    if (count := len({handle.key for handle in frames})) > MOST_PICTURES:
        raise ArgumentError(f"look(): these are {count} frames; give at most {MOST_PICTURES}")
    if not _SMALLEST_SIDE <= side <= _LARGEST_SIDE:
        raise ArgumentError(f"look(): side is {side}; give {_SMALLEST_SIDE} to {_LARGEST_SIDE} pixels")
    if format not in FORMATS:
        raise ArgumentError(f"look(): format is {format!r}; give {' or '.join(FORMATS)}")
    video = call.context.video
    decoded = call.decode(frames, _fitted(video.height, video.width, side))
    call.frame_refs += frame_refs(decoded.values())
    return [encoded(handle, frame, side, format) for handle, frame in decoded.items()]


LOOK: Module = module_of(look, family="extraction", cache=False)
"""No module of programs, which hold no pixels."""


def encoded(handle: FrameHandle, frame: Frame, side: int, format: str) -> Picture:
    """The picture of a frame, whose longer side has at most `side` pixels."""
    height, width = _fitted(frame.image.shape[0], frame.image.shape[1], side)
    image = Image.fromarray(frame.image)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, format=format.upper(), **({"quality": _QUALITY} if format == "jpeg" else {}))
    return Picture(handle, f"image/{format}", width, height, file.getvalue())


def frames_seen(refs: Sequence[FrameRef]) -> list[dict[str, Any]]:
    """The frames that a call looked at, as JSON: times in seconds, boxes of crops in shares of the
    picture."""
    return [
        {"time": ref[0], "box": [round(side, 4) for side in ref[3:7]] if len(ref) >= 7 else None}
        for ref in refs
    ]


def _fitted(height: int, width: int, side: int) -> tuple[int, int]:
    share = min(1.0, side / max(height, width))
    return max(1, round(height * share)), max(1, round(width * share))


def reply_text(reply: Mapping[str, Any]) -> str:
    """A reply as JSON text without the data of its pictures, which no model could read as text."""
    return json.dumps({name: value for name, value in reply.items() if name != "images"}, ensure_ascii=False)


def reply_parts(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A reply as content parts of OpenAI's form: its text, then each picture."""
    return [{"type": "text", "text": reply_text(reply)}, *picture_parts(reply)]


def picture_parts(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pictures of a reply as content parts, each after its id and time."""
    parts: list[dict[str, Any]] = []
    for image in reply.get("images", ()):
        parts.append({"type": "text", "text": f"{image['id']}, {image['time']:g} s:"})
        url = f"data:{image['mime_type']};base64,{image['data']}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def tool_messages(replies: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The messages that answer an assistant's tool calls, by the calls' ids. Tool messages hold text only, so
    all pictures follow in one message of the user."""
    answered = list(replies)
    messages: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": id, "content": reply_text(reply)} for id, reply in answered
    ]
    pictures = [part for _, reply in answered for part in picture_parts(reply)]
    return [*messages, {"role": "user", "content": pictures}] if pictures else messages
