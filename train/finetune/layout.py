"""Lays a batch of rows out for the model: padded to one of a few widths, or joined into one row of documents.

    document 1 | document 2 | document 3 | padding

In a joined row no token is padding but at its end, and a document attends to itself only. Each has the
positions that it has in a separate row, so the losses and gradients are those of separate rows. Pixels may be
replaced by features that were kept (`KeptFeatures`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import send_to_device
from cachetools import LRUCache
from torch.nn.functional import pad

from videopro.backbones.qwen import EncodedPrompt, encode_vision, features_bytes, visual_inputs
from videopro.train.finetune.collator import IGNORE_INDEX, VISUAL
from videopro.train.packing import NO_BRANCH, PADDING, RowShape

_LEAST_WIDTH, _LEAST_JOINED = 128, 256
_TOKENS = {"input_ids": 0, "attention_mask": 0, "mm_token_type_ids": 0, "labels": IGNORE_INDEX}
"""The tensors of a batch with one value per token, and the value of padding."""


def widened(batch: Mapping[str, Any], shape: RowShape) -> dict[str, Any]:
    """The batch, padded on the right to a width of `shape`, unless all rows are equally long: it then has no
    padding, and its attention needs no mask."""
    width = batch["input_ids"].shape[1]
    missing = shape.width(width, least=_LEAST_WIDTH) - width
    if missing == 0 or bool(batch["attention_mask"].all()):
        return dict(batch)
    return {
        name: pad(value, (0, missing), value=_TOKENS[name]) if name in _TOKENS else value
        for name, value in batch.items()
    }


def joined(batch: Mapping[str, Any], core: Any, shape: RowShape) -> dict[str, Any]:
    """The batch as one row of documents. `core`: the module that has `visual` and the language model."""
    mask = batch["attention_mask"].bool()
    rows, width = mask.shape
    columns = torch.arange(width, device=mask.device).expand(rows, -1)
    extra = {
        name: batch[name]
        for name in ("image_grid_thw", "video_grid_thw", "second_per_grid_ts")
        if name in batch
    }
    visual, _ = core.get_rope_index(
        batch["input_ids"], batch["mm_token_type_ids"], attention_mask=batch["attention_mask"], **extra
    )
    # The first row restarts with each document: transformers finds the documents by it.
    positions = torch.cat([columns[None], visual.to(columns)])[:, mask][:, None]
    documents = torch.arange(rows, device=mask.device)[:, None].expand(-1, width)[mask][None]
    tokens = {name: value[mask][None] for name, value in batch.items() if name in _TOKENS}
    inputs = {name: value for name, value in batch.items() if name not in _TOKENS}
    del tokens["attention_mask"]
    if core.config._attn_implementation != "sdpa":
        # Flash attention finds the documents by their positions.
        return {**inputs, **tokens, "position_ids": positions}
    length = documents.shape[1]
    missing = shape.width(length, least=_LEAST_JOINED) - length
    tokens = {name: pad(value, (0, missing), value=_TOKENS[name]) for name, value in tokens.items()}
    segments = pad(documents, (0, missing), value=PADDING)
    return {
        **inputs,
        **tokens,
        "position_ids": pad(positions, (0, missing)),
        "attention_mask": shape.mask(segments, torch.full_like(segments, NO_BRANCH)),
    }


_KINDS = {1: ("pixel_values", "image_grid_thw"), 2: ("pixel_values_videos", "video_grid_thw")}
"""The names of a row's pixel and grid tensors, by the type of its visual tokens."""


class KeptFeatures:
    """Features of at most `kept_bytes` bytes, in host memory: 47 MB per video for an 8B model.

    `core`: the module that has `visual` and the language model."""

    def __init__(self, core: Any, device: torch.device, kept_bytes: int) -> None:
        self._core = core
        self._device = device
        self._cache: LRUCache[str, Mapping[str, Any]] = LRUCache(kept_bytes, features_bytes)
        self.encoded = 0
        """How many times the tower ran."""

    def put(self, batch: Mapping[str, Any], videos: Sequence[str]) -> dict[str, Any]:
        """The batch with features instead of pixels. `videos`: the video of each row that has one."""
        kinds = [int(kind) for kind in batch["mm_token_type_ids"].amax(1).tolist() if kind]
        at = dict.fromkeys(_KINDS, (0, 0))
        rows = []
        for kind, video in zip(kinds, videos, strict=True):
            pixels, grid = _KINDS[kind]
            patch, number = at[kind]
            size = batch[grid][number : number + 1]
            end = patch + int(size.prod())
            tensors = {pixels: batch[pixels][patch:end], grid: size}
            at[kind] = end, number + 1
            rows.append(self._encoded(EncodedPrompt((), (), tensors), video))
        text_inputs = {name: value for name, value in batch.items() if name not in VISUAL}
        return {**text_inputs, **visual_inputs(rows, self._device)}

    def _encoded(self, row: EncodedPrompt, video: str) -> EncodedPrompt:
        grids = {name: tensor for name, tensor in row.tensors.items() if name.endswith("grid_thw")}
        features = self._cache.get(video)
        if features is not None:
            return EncodedPrompt((), (), grids, features=features)
        with torch.no_grad():
            row = encode_vision(self._core, row, self._device)
        self.encoded += 1
        # The cache raises for an entry that is larger than all of it.
        if features_bytes(row.features) <= self._cache.maxsize:
            self._cache[video] = send_to_device(row.features, "cpu")
        return row
