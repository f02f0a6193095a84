"""A video's shared prefix on a Qwen model: its visual encoding, keys and values, computed once.

Knows what it holds and who may use it; must not know how it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from videopro.backbones.base import Prefix
from videopro.backbones.qwen.run import PromptHead
from videopro.errors import BackboneError

if TYPE_CHECKING:
    from videopro.video import Frame


class QwenPrefix(Prefix):
    """See `Prefix`. `owner` is the backbone that made it and `adapted` whether its adapter was on: keys and
    values of one state are wrong in the other."""

    def __init__(self, frames: Sequence[Frame], shared: PromptHead, *, owner: object, adapted: bool) -> None:
        self.frames = tuple(frames)
        self.tokens = shared.length
        self._shared: PromptHead | None = shared
        self._owner = owner
        self._adapted = adapted

    @property
    def closed(self) -> bool:
        """Whether the memory was given back."""
        return self._shared is None

    @property
    def nbytes(self) -> int:
        """Bytes that its keys, values and states hold; 0 once closed."""
        if self._shared is None:
            return 0
        return sum(_bytes(vars(layer)) for layer in self._shared.cache.layers)

    def use(self, owner: object, *, adapted: bool) -> PromptHead:
        """What was computed, for `owner` in its present adapter state; `BackboneError` for any other."""
        if self._shared is None:
            raise BackboneError("this prefix is closed; make a new one with backbone.prefix(frames)")
        if owner is not self._owner:
            raise BackboneError(
                "this prefix was made by another backbone; make one with this backbone's prefix(frames)"
            )
        if adapted != self._adapted:
            made, now = ("on", "off") if self._adapted else ("off", "on")
            raise BackboneError(
                f"this prefix was made with the adapter {made} and the adapter is {now}; make one for this "
                "state"
            )
        return self._shared

    def close(self) -> None:
        """Give the memory back; a second call does nothing."""
        self._shared = None


def _bytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return 0
