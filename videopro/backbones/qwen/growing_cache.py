"""A key-value cache that allocates room for tokens in advance.

Transformers' DynamicCache concatenates its tensors for each token, which copies the whole prompt once per
token of a reply.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import DynamicLayer

_ROOM = 128
"""Tokens allocated at once."""


class GrowingLayer(DynamicLayer):
    """A DynamicCache layer whose `keys` and `values`, (rows, heads, tokens, size), are the used part of
    larger tensors. Not for passes with gradients: their saved tensors would be overwritten."""

    def __init__(self, layer: DynamicLayer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.__dict__.update(layer.__dict__)
        self._keys_room: torch.Tensor | None = None
        self._values_room: torch.Tensor | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append tokens; returns the keys and values of all tokens."""
        # The first tokens are the prompt's, for which no room is known to be needed yet.
        if not self.is_initialized:
            return super().update(key_states, value_states, *args, **kwargs)
        assert self.keys is not None
        assert self.values is not None
        self.keys, self._keys_room = _append(self.keys, key_states, self._keys_room)
        self.values, self._values_room = _append(self.values, value_states, self._values_room)
        return self.keys, self.values


def make_growing(cache: Cache) -> None:
    """Turn the cache's dynamic layers into growing ones. Layers of other types stay as they are."""
    # Exactly this type: sliding and recurrent layers derive from it, and keep other things.
    cache.layers = [GrowingLayer(layer) if type(layer) is DynamicLayer else layer for layer in cache.layers]


def _append(
    before: torch.Tensor, new: torch.Tensor, room: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    length, total = before.shape[-2], before.shape[-2] + new.shape[-2]
    # Reordering the rows replaces the tensor, so that it is no longer a part of `room`.
    if room is None or room.data_ptr() != before.data_ptr() or room.shape[-2] < total:
        room = before.new_empty((*before.shape[:-2], total + _ROOM, before.shape[-1]))
        room[..., :length, :] = before
    room[..., length:total, :] = new
    return room[..., :total, :], room
