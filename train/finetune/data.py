"""Rows to fine-tune on: chat messages and a video, as JSON lines in the format of ms-swift.

    {"messages": [{"role": "user", "content": "<video>QUESTION"}, {"role": "assistant", "content": "REPLY"}],
     "videos": ["videos/a.mp4"], "id": "a-1", "kind": "program"}

Both our own `sft.jsonl` and the VideoPro release's `train_sft.jsonl` have this format. Other fields are
ignored, and a row without a video is text only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopro.errors import DatasetError
from videopro.storage import read_json_lines

PLACEHOLDER = "<video>"


@dataclass(frozen=True)
class SFTRow:
    """One example: what the model is shown, and the reply that it should write."""

    id: str
    """The row's own id, or else "line N"."""
    prompt: str
    reply: str
    video: Path | None = None
    kind: str = ""


def read_rows(path: Path) -> list[SFTRow]:
    """The rows of a file. Video paths are relative to its folder, or absolute.

    Raises DatasetError, naming the file, the line and the fix, for the first row that is not in the format
    above: one user turn and one reply, and `<video>` at the start of the prompt if and only if there is a
    video.
    """
    lines = read_json_lines(path, "a file of JSON lines, such as sft.jsonl")
    rows = [_row(record, path.parent, where, number) for number, where, record in lines]
    if not rows:
        raise DatasetError(f"{path}: has no rows")
    return rows


def _row(record: Mapping[str, Any], folder: Path, where: str, number: int) -> SFTRow:
    prompt, reply = _turns(record.get("messages"), where)
    videos = record.get("videos") or []
    if not isinstance(videos, list) or not all(isinstance(video, str) and video for video in videos):
        raise DatasetError(f"{where}: field 'videos' must be a list of paths, not {videos!r}")
    if record.get("images") or record.get("audios"):
        raise DatasetError(f"{where}: has images or audio; only videos are supported")
    if len(videos) > 1:
        raise DatasetError(f"{where}: lists {len(videos)} videos; only one per row is supported")
    marks = prompt.count(PLACEHOLDER)
    if marks != len(videos):
        raise DatasetError(
            f"{where}: has {marks} {PLACEHOLDER} and {len(videos)} videos; write one {PLACEHOLDER} per video"
        )
    if videos and not prompt.startswith(PLACEHOLDER):
        # The planner's prompt begins with the video, so that all questions about it share its encoding.
        raise DatasetError(f"{where}: {PLACEHOLDER} is not at the start of the prompt; put it there")
    return SFTRow(
        id=str(record["id"]) if record.get("id") is not None else f"line {number}",
        prompt=prompt.removeprefix(PLACEHOLDER),
        reply=reply,
        video=folder / videos[0] if videos else None,
        kind=str(record.get("kind") or ""),
    )


def _turns(messages: Any, where: str) -> tuple[str, str]:
    roles = [_field(turn, "role", where) for turn in messages] if isinstance(messages, list) else []
    if roles != ["user", "assistant"]:
        raise DatasetError(
            f"{where}: 'messages' must be one user turn and one assistant turn, not {roles or messages!r}"
        )
    prompt, reply = (_field(turn, "content", where) for turn in messages)
    if not reply.strip():
        raise DatasetError(f"{where}: the assistant's turn is empty; there is nothing to learn from it")
    return prompt, reply


def _field(message: Any, name: str, where: str) -> str:
    value = message.get(name) if isinstance(message, Mapping) else None
    if not isinstance(value, str):
        raise DatasetError(f"{where}: a message has no text in {name!r}: {message!r}")
    return value
