"""Rows of a chat and a video in the format of ms-swift, which the VideoPro release's files have too.

    {"messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "<video>QUESTION"},
                  {"role": "assistant", "content": "REPLY"}], "videos": ["a.mp4"]}
    {"system": "...", "query": "<video>QUESTION", "response": "REPLY", "videos": ["a.mp4"]}

The system turn and the reply are optional. `<video>` stands anywhere in the user's turn. As in ms-swift, a
row with a video but without `<video>` begins with the video, `videos` may be a single path, and `system` may
stand beside `messages` that have no system turn. (modelscope/ms-swift,
docs/source_en/Customization/Custom-dataset.md at 025fc6b, and `to_std_messages` of its preprocessor.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from videopro.errors import DatasetError

PLACEHOLDER = "<video>"


@dataclass(frozen=True)
class ChatRow:
    """One turn of a user, with what is said before and after it."""

    system: str | None
    """The system turn; None: the row has none, and the chat template's own applies, if it has one."""
    before: str
    """The user's text before the video; empty without a video."""
    prompt: str
    """The user's text after the video; all of it without a video."""
    video: str | None
    """As it is written in the row."""
    reply: str | None


def read_chat(record: Mapping[str, Any], where: str) -> ChatRow:
    """The chat of a row; other fields are ignored. Raises DatasetError, which begins with `where`, for a row
    that has several turns of a user, several videos, or other media."""
    system, text, reply = _turns(record, where)
    video = _video(record, where)
    marks = text.count(PLACEHOLDER)
    if PLACEHOLDER in (system or "") or PLACEHOLDER in (reply or ""):
        raise DatasetError(
            f"{where}: has {PLACEHOLDER} outside the user's turn; only that may show the video"
        )
    if marks > (video is not None):
        raise DatasetError(
            f"{where}: has {marks} {PLACEHOLDER} and {int(video is not None)} videos; write one "
            f"{PLACEHOLDER} per video"
        )
    before, _, prompt = text.partition(PLACEHOLDER) if marks else ("", "", text)
    return ChatRow(system, before, prompt, video, reply)


def _turns(record: Mapping[str, Any], where: str) -> tuple[str | None, str, str | None]:
    """The texts of the system, the user and the assistant."""
    system = _string(record["system"], "system", where) if record.get("system") is not None else None
    if "messages" not in record and "query" in record:
        if record.get("history"):
            raise DatasetError(f"{where}: has a history; only rows of one user turn are supported")
        response = record.get("response")
        return (
            system,
            _string(record["query"], "query", where),
            _string(response, "response", where) if response is not None else None,
        )
    messages = record.get("messages")
    if messages is None:
        raise DatasetError(f"{where}: has neither 'messages' nor 'query'; write one of them")
    if not isinstance(messages, list) or not messages:
        raise DatasetError(f"{where}: 'messages' is {messages!r}; it must be a list of turns")
    turns = [(_field(turn, "role", where), _field(turn, "content", where)) for turn in messages]
    roles = [role for role, _ in turns]
    if roles not in (
        ["user"],
        ["user", "assistant"],
        ["system", "user"],
        ["system", "user", "assistant"],
    ):
        raise DatasetError(
            f"{where}: 'messages' must be an optional system turn, one user turn and an optional assistant "
            f"turn, not {roles}"
        )
    texts = dict(turns)
    return texts.get("system", system), texts["user"], texts.get("assistant")


def _video(record: Mapping[str, Any], where: str) -> str | None:
    """The path of the row's video, if it has one."""
    if any(record.get(name) for name in ("image", "images", "audio", "audios")):
        raise DatasetError(f"{where}: has images or audio; only videos are supported")
    videos = record.get("videos")
    videos = record.get("video") if videos is None else videos
    if videos is None:
        return None
    paths = [videos] if isinstance(videos, str) else videos
    if not isinstance(paths, list) or not all(isinstance(video, str) and video for video in paths):
        raise DatasetError(f"{where}: field 'videos' must be a list of paths, not {videos!r}")
    if len(paths) > 1:
        raise DatasetError(f"{where}: lists {len(paths)} videos; only one per row is supported")
    return paths[0] if paths else None


def _field(message: Any, name: str, where: str) -> str:
    value = message.get(name) if isinstance(message, Mapping) else None
    if not isinstance(value, str):
        raise DatasetError(f"{where}: a message has no text in {name!r}: {message!r}")
    return value


def _string(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise DatasetError(f"{where}: field {name!r} is {value!r}; it must be a string")
    return value
