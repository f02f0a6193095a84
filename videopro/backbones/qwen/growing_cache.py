"""A cache of keys and values with room behind its tokens.

The library's own is put together anew for each token: a reply costs as many copies of its whole prompt as it
has tokens. Knows tensors; must not know models, prompts or rows.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

_ROOM = 128
"""Tokens for which room is made at once."""


class GrowingLayer(DynamicLayer):
    """A layer of a DynamicCache whose `keys` and `values`, (rows, heads, tokens, size), are the used part of
    larger tensors. Not for passes that keep gradients: what they saved would be written over."""

    def __init__(self, layer: DynamicLayer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.__dict__.update(layer.__dict__)
        self._keys_room: torch.Tensor | None = None
        self._values_room: torch.Tensor | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put tokens behind the others; all of them."""
        if not self.is_initialized:
            return super().update(key_states, value_states, *args, **kwargs)
        assert self.keys is not None
        assert self.values is not None
        self.keys, self._keys_room = _put(self.keys, key_states, self._keys_room)
        self.values, self._values_room = _put(self.values, value_states, self._values_room)
        return self.keys, self.values


def give_room(cache: Cache) -> None:
    """Have what follows be put behind what is there. Layers of other kinds stay as they are."""
    cache.layers = [GrowingLayer(layer) if type(layer) is DynamicLayer else layer for layer in cache.layers]


def _put(
    before: torch.Tensor, new: torch.Tensor, room: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    length, whole = before.shape[-2], before.shape[-2] + new.shape[-2]
    # Whoever reorders the rows leaves a tensor of its own.
    if room is None or room.data_ptr() != before.data_ptr() or room.shape[-2] < whole:
        room = before.new_empty((*before.shape[:-2], whole + _ROOM, before.shape[-1]))
        room[..., :length, :] = before
    room[..., length:whole, :] = new
    return room[..., :whole, :], room
