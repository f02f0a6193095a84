"""A tool's reply in the forms that chat models take: text, or text with pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


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
