"""Keys and values that stay at one place while replies are written.

Each row begins with a shared prompt (`shared_prompts`), and has room for tokens of its own that are written
at an index on the device. Nothing in a step then depends on a number that the host knows, so that a step can
be captured as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from videopro.backbones.qwen.shared_prompts import PromptRows, SharedCache, SharedLayer


class KeyValueStore:
    """Memory for the keys and values of one model, taken anew by each batch of replies: captured steps refer
    to its addresses. It grows to the largest batch."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[str, int], torch.Tensor] = {}
        self.grown = 0
        """How often a tensor was replaced by a larger one; steps captured before refer to the former."""

    def take(self, name: str, layer: int, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        """A tensor of this shape, with whatever it held before."""
        size = 1
        for length in shape:
            size *= length
        stored = self._tensors.get((name, layer))
        if stored is None or stored.numel() < size:
            self.grown += stored is not None
            # Freed first: both together may not fit.
            self._tensors.pop((name, layer), None)
            stored = None
            stored = self._tensors[name, layer] = torch.empty(size, dtype=like.dtype, device=like.device)
        return stored[:size].view(*shape)

    def release(self) -> None:
        """Free the memory."""
        self.grown += 1
        self._tensors.clear()


class StaticLayer(SharedLayer):
    """A layer whose `keys` and `values`, (rows, heads, room, size), are written at `index`."""

    def __init__(
        self,
        prompts: tuple[torch.Tensor, torch.Tensor],
        continuations: tuple[torch.Tensor, torch.Tensor],
        rows: PromptRows,
        index: torch.Tensor,
    ) -> None:
        """`prompts`, `continuations`: keys and values; `index`: (1,), of a step's token in a continuation."""
        # What it has is complete, so that no initialization of the library's may replace it.
        DynamicLayer.__init__(self)  # type: ignore[no-untyped-call, unused-ignore]
        self.prompt_keys, self.prompt_values = prompts
        self.keys, self.values = continuations
        self.dtype, self.device = self.keys.dtype, self.keys.device
        self.is_initialized = True
        self.rows = rows
        self._index = index
        self.read = self.keys.shape[2]
        """How many of a row's own tokens attention reads."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a token of each row; returns the rows' own keys and values."""
        assert self.keys is not None
        assert self.values is not None
        self.keys.index_copy_(2, self._index, key_states)
        self.values.index_copy_(2, self._index, value_states)
        return self.keys[:, :, : self.read], self.values[:, :, : self.read]

    def get_seq_length(self) -> int:
        """Tokens of a row that attention reads, its prompt's included."""
        return self.prompt_keys.shape[-2] + self.read


class StaticCache(SharedCache):
    """A cache of `StaticLayer`s, for steps of one token a row."""

    def __init__(self, layers: list[StaticLayer]) -> None:
        Cache.__init__(self, layers=layers)  # type: ignore[arg-type]

    def read(self, tokens: int) -> None:
        """Let attention read this many of the rows' own tokens."""
        for layer in self.layers:
            assert isinstance(layer, StaticLayer)
            layer.read = tokens

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Not possible: its rows stay where they are."""
        raise NotImplementedError("rows of a static cache are chosen when a batch is laid out")
