"""Rows to fine-tune on: a chat with a reply, and a video, as JSON lines (`videopro.train.runtime.rows`).

Both our own `sft.jsonl` and the VideoPro release's `train_sft.jsonl` have this format. Other fields are
ignored, and a row without a video is text only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopro.errors import DatasetError
from videopro.traces import ReferenceForm
from videopro.train.runtime import RowsOfFile, read_chat, read_reference, read_rows_of_file


@dataclass(frozen=True)
class SFTRow:
    """One example: what the model is shown, and the reply that it should write."""

    id: str
    """The row's own id, or else "line N"."""
    prompt: str
    """The text that follows the video."""
    reply: str
    video: Path | None = None
    kind: str = ""
    system: str | None = None
    """The system turn; None: the chat template's own, if it has one."""
    before: str = ""
    """The text before the video."""
    reference: ReferenceForm = "none"
    """What the prompt says of the modules."""
    where: str = field(default="", compare=False)
    """Its file and line, for messages."""


def read_rows(path: Path) -> RowsOfFile[SFTRow]:
    """Read the rows of a file; those that cannot be trained on are left out. Video paths are relative to its
    folder, or absolute. Raises DatasetError for a file that cannot be read or has no row to train on."""

    def read(record: Mapping[str, Any], where: str, number: int) -> SFTRow:
        return _row(record, path.parent, where, number)

    return read_rows_of_file(path, "a file of JSON lines, such as sft.jsonl", read)


def _row(record: Mapping[str, Any], folder: Path, where: str, number: int) -> SFTRow:
    chat = read_chat(record, where)
    if chat.reply is None or not chat.reply.strip():
        raise DatasetError(f"{where}: the assistant's turn is empty; there is nothing to learn from it")
    return SFTRow(
        # Rows of the release have no id; a line's number stays the same.
        id=str(record["id"]) if record.get("id") is not None else f"line {number}",
        prompt=chat.prompt,
        reply=chat.reply,
        video=folder / chat.video if chat.video else None,
        kind=str(record.get("kind") or ""),
        system=chat.system,
        before=chat.before,
        reference=read_reference(record, where).reference,
        where=where,
    )
