"""Frames as JPEG or PNG, and a reply in the forms that chat models take: text, or text with images."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from PIL import Image

from videopro.video import Frame

SIDE = 640
"""The longer side of an image in pixels, unless a call says otherwise: with this quality, eight of a video
full of detail take less than a megabyte."""
_QUALITY = 75


def encoded(frame: Frame, side: int, format: str) -> dict[str, Any]:
    """A frame as an image whose longer side has at most `side` pixels, its data in base64."""
    height, width = fitted(frame.image.shape[0], frame.image.shape[1], side)
    image = Image.fromarray(frame.image)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, format=format.upper(), **({"quality": _QUALITY} if format == "jpeg" else {}))
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return {"mime_type": f"image/{format}", "width": width, "height": height, "data": data}


def fitted(height: int, width: int, side: int) -> tuple[int, int]:
    """The height and width of an image whose longer side has at most `side` pixels."""
    share = min(1.0, side / max(height, width))
    return max(1, round(height * share)), max(1, round(width * share))


def reply_text(reply: Mapping[str, Any]) -> str:
    """A reply as JSON text without the data of its images, which no model could read as text."""
    return json.dumps({name: value for name, value in reply.items() if name != "images"}, ensure_ascii=False)


def reply_parts(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A reply as content parts of OpenAI's form: its text, then each image."""
    return [{"type": "text", "text": reply_text(reply)}, *_image_parts(reply)]


def _image_parts(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The images of a reply as content parts, each after its time."""
    parts: list[dict[str, Any]] = []
    for image in reply.get("images", ()):
        parts.append({"type": "text", "text": f"{image['time']:g} s:"})
        url = f"data:{image['mime_type']};base64,{image['data']}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def tool_messages(replies: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The messages that answer an assistant's tool calls, by the calls' ids. Tool messages hold text only, so
    all images follow in one message of the user."""
    answered = list(replies)
    messages: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": id, "content": reply_text(reply)} for id, reply in answered
    ]
    images = [part for _, reply in answered for part in _image_parts(reply)]
    return [*messages, {"role": "user", "content": images}] if images else messages
