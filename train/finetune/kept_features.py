"""Keeps a frozen vision tower's features of recent videos, so that their further rows do not run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from cachetools import LRUCache

from videopro.backbones.qwen import EncodedPrompt, encode_vision, features_bytes, visual_inputs
from videopro.train.finetune.collator import VISUAL

_KINDS = {1: ("pixel_values", "image_grid_thw"), 2: ("pixel_values_videos", "video_grid_thw")}
"""A row's tensors of pixels and of their grid, by the type of its visual tokens."""


class KeptFeatures:
    """Features of at most `kept_bytes` bytes, in the host's memory: those of an 8B model are 47 MB a video.

    `core`: the module that has `visual` and the language model."""

    def __init__(self, core: Any, device: torch.device, kept_bytes: int) -> None:
        self._core = core
        self._device = device
        self._cache: LRUCache[str, Mapping[str, Any]] = LRUCache(kept_bytes, features_bytes)
        self.encoded = 0
        """How often the tower was run."""

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
            self._cache[video] = {kind: _on_host(output) for kind, output in row.features.items()}
        return row


def _on_host(output: Any) -> Any:
    """The tower's output with its tensors in the host's memory."""
    moved = {name: _moved(value) for name, value in output.items()}
    return type(output)(**moved)


def _moved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return type(value)(_moved(part) for part in value)
