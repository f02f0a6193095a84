"""Rows to fine-tune on, and their batches: the planner's own prompt, the reply, and labels on the reply only.

A row is a chat with a reply, and a video, as JSON lines (`videopro.train.runtime.rows`): both our own
`sft.jsonl` and the release's `train_sft.jsonl`. Other fields are ignored, and a row without a video is text
only. A row's tokens, grids and timestamps come from the code that builds the prompt in inference
(`videopro.backbones.qwen.inputs`), so that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset

from videopro.backbones.qwen import EncodedPrompt, QwenInputs
from videopro.errors import DatasetError
from videopro.traces import ReferenceForm
from videopro.train.runtime import (
    FrameCache,
    RowsOfFile,
    as_column,
    read_chat,
    read_reference,
    read_rows_of_file,
    row_of,
)


@dataclass(frozen=True)
class SFTRow:
    """One example: the prompt, and the reply to learn."""

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
    """How the prompt describes the modules."""
    where: str = field(default="", compare=False)
    """Its file and line, for messages."""


def read_rows(path: Path) -> RowsOfFile[SFTRow]:
    """Read the rows of a file, without those that cannot be trained on. Video paths are absolute or relative
    to its folder. Raises DatasetError if the file cannot be read or has no row to train on."""

    def read(record: Mapping[str, Any], where: str, number: int) -> SFTRow:
        return _row(record, path.parent, where, number)

    return read_rows_of_file(path, "a file of JSON lines, such as sft.jsonl", read)


def _row(record: Mapping[str, Any], folder: Path, where: str, number: int) -> SFTRow:
    chat = read_chat(record, where)
    if chat.reply is None or not chat.reply.strip():
        raise DatasetError(f"{where}: the assistant's turn is empty; write a reply, or remove the row")
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


IGNORE_INDEX = -100
"""The label of tokens without a loss."""
VIDEOS = "videos"
"""The key, in a batch, of the list of its rows' videos; rows without a video are left out."""
VISUAL = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")


def count_tokens(row: SFTRow, inputs: QwenInputs) -> int:
    """The number of tokens of a row: its texts, plus an estimate for a video from its maximum pixels per
    frame. Nothing is decoded. Raises BackboneError for a reply that cannot be learned."""
    text = inputs.text(row.before + row.prompt, system=row.system)
    # Two frames share their patches.
    visual = inputs.frames * inputs.pixels // (2 * inputs.patch**2) if row.video is not None else 0
    return len(text.ids) + len(inputs.reply(row.reply).ids) + visual


def as_dataset(rows: Sequence[SFTRow], lengths: Mapping[str, int] | None = None) -> Dataset:
    """The rows as a dataset for the trainer; the collator makes frames and tokens. `lengths`: the number of
    tokens by file and line, by which samplers group rows."""
    return Dataset.from_list(
        [{"length": (lengths or {}).get(row.where, 0), **as_column(row)} for row in rows]
    )


class VideoCollator:
    """Makes batches, padded on the right. Runs in the data loader's workers.

    A batch has `input_ids`, `attention_mask`, `mm_token_type_ids` and `labels`, all (rows, tokens) int64, the
    videos of its rows with one under VIDEOS, and, concatenated over these,
    `pixel_values_videos` (patches, values per patch), `video_grid_thw` (videos, 3) and, for Qwen2.5-VL,
    `second_per_grid_ts`, a number for each. A one-frame video is passed as an image, as in inference.
    """

    def __init__(self, inputs: QwenInputs, frames: FrameCache) -> None:
        self._inputs = inputs
        self._frames = frames
        # Padding is masked, so any token serves.
        pad = inputs.tokenizer.pad_token_id
        self._pad = int(inputs.tokenizer.eos_token_id if pad is None else pad)

    def example(self, row: SFTRow) -> tuple[EncodedPrompt, int]:
        """The tokens of a row, to the end of the reply's turn, and the length of its prompt, which has no
        loss. Raises VideoError or BackboneError."""
        # Frames come from the cache on disk: workers of the loader decode nothing twice.
        if row.video is not None:
            head = self._inputs.head(self._frames.frames(row.video), system=row.system, before=row.before)
            prompt = head.append_text(self._inputs.tail(row.prompt))
        else:
            prompt = self._inputs.text(row.prompt, system=row.system)
        return prompt.append_text(self._inputs.reply(row.reply)), len(prompt.ids)

    def __call__(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Collate items of `as_dataset` into a batch."""
        rows = [row_of(item) for item in items]
        examples = [self.example(row) for row in rows]
        encoded = [example for example, _ in examples]
        labels = [[IGNORE_INDEX] * prompt + list(example.ids[prompt:]) for example, prompt in examples]
        batch: dict[str, Any] = {
            "input_ids": _pad_right([row.ids for row in encoded], self._pad),
            "attention_mask": _pad_right([[1] * len(row.ids) for row in encoded], 0),
            "mm_token_type_ids": _pad_right([row.types for row in encoded], 0),
            "labels": _pad_right(labels, IGNORE_INDEX),
            # As text, by which features are kept.
            VIDEOS: [str(row.video) for row in rows if row.video is not None],
        }
        for name in VISUAL:
            parts = [row.tensors[name] for row in encoded if name in row.tensors]
            if parts:
                batch[name] = torch.cat(parts)
        intervals = [seconds for row in encoded for seconds in row.intervals]
        if intervals:
            # As numbers: under DeepSpeed and FSDP tensors of inputs are rounded to 16 bits, and with them the
            # positions that are made of these.
            batch["second_per_grid_ts"] = intervals
        return batch


def _pad_right(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long)
