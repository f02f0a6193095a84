"""Rows to the tensors of a training batch: the planner's own prompt, the reply, labels on the reply alone.

A row's tokens, grids and timestamps are made by the code that makes the prompt in inference
(`videopro.backbones.qwen.inputs`), so that the two cannot drift apart. Knows rows and inputs; must not know
models or trainers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset

from videopro.backbones.qwen.inputs import EncodedPrompt, QwenInputs
from videopro.train.finetune.data import SFTRow
from videopro.train.runtime.finite_steps import ROW_IDS
from videopro.train.runtime.frame_cache import FrameCache

IGNORE_INDEX = -100
"""The label of a token without a loss."""
VISUAL = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")


@dataclass(frozen=True)
class TokenizedExample:
    """A row in tokens: `prompt` of them without a loss, then those of the reply with the end of its turn."""

    encoded: EncodedPrompt
    prompt: int

    @property
    def labels(self) -> list[int]:
        """The token at each place that has a loss, `IGNORE_INDEX` at the others."""
        return [IGNORE_INDEX] * self.prompt + list(self.encoded.ids[self.prompt :])


def as_dataset(rows: Sequence[SFTRow]) -> Dataset:
    """The rows as the trainer takes them: texts and paths; whatever is large is made in the collator."""
    return Dataset.from_list(
        [
            {"id": row.id, "prompt": row.prompt, "reply": row.reply, "video": str(row.video or "")}
            for row in rows
        ]
    )


class VideoCollator:
    """Makes batches, padded on the right. Called in the data loader's workers.

    A batch holds `input_ids`, `attention_mask`, `mm_token_type_ids` and `labels`, all (rows, tokens) int64,
    its rows' ids under ROW_IDS, and of its rows that have a video, one after another, `pixel_values_videos`
    (patches, values a patch), `video_grid_thw` (videos, 3) and, for Qwen2.5-VL, `second_per_grid_ts`
    (videos,). A video of one frame is an image, as in inference.
    """

    def __init__(self, inputs: QwenInputs, frames: FrameCache) -> None:
        self._inputs = inputs
        self._frames = frames
        pad = inputs.tokenizer.pad_token_id
        self._pad = int(inputs.tokenizer.eos_token_id if pad is None else pad)

    def example(self, row: Mapping[str, str]) -> TokenizedExample:
        """A row of `as_dataset` in tokens. Raises VideoError or BackboneError."""
        if row["video"]:
            head = self._inputs.head(self._frames.frames(Path(row["video"])))
            prompt = head.then(self._inputs.tail(row["prompt"]))
        else:
            prompt = self._inputs.text(row["prompt"])
        return TokenizedExample(prompt.then(self._inputs.reply(row["reply"])), len(prompt.ids))

    def __call__(self, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """One batch of rows of `as_dataset`."""
        examples = [self.example(row) for row in rows]
        encoded = [one.encoded for one in examples]
        batch: dict[str, Any] = {
            "input_ids": _right([one.ids for one in encoded], self._pad),
            "attention_mask": _right([[1] * len(one.ids) for one in encoded], 0),
            "mm_token_type_ids": _right([one.types for one in encoded], 0),
            "labels": _right([one.labels for one in examples], IGNORE_INDEX),
            ROW_IDS: [row["id"] for row in rows],
        }
        for name in VISUAL:
            parts = [one.tensors[name] for one in encoded if name in one.tensors]
            if parts:
                batch[name] = torch.cat(parts)
        intervals = [seconds for one in encoded for seconds in one.intervals]
        if intervals:
            batch["second_per_grid_ts"] = torch.tensor(intervals)
        return batch


def _right(rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long)
