"""A video's shared prefix on a Qwen model: its visual encoding, keys and values, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from videopro.backbones.base import Prefix
from videopro.backbones.qwen.joined_heads import PromptHead
from videopro.errors import BackboneError

if TYPE_CHECKING:
    from videopro.video import Frame


class QwenPrefix(Prefix):
    """See `Prefix`. `owner` is the backbone that made it, and `adapted` is whether its adapter was on: keys
    and values computed in one adapter state are wrong in the other."""

    def __init__(
        self,
        frames: Sequence[Frame],
        shared: PromptHead,
        *,
        owner: object,
        adapted: bool,
        system: str = "",
    ) -> None:
        self.frames = tuple(frames)
        self.system = system
        self.tokens = shared.length
        self._shared: PromptHead | None = shared
        self._owner = owner
        self._adapted = adapted

    @property
    def closed(self) -> bool:
        """Whether the memory has been released."""
        return self._shared is None

    @property
    def nbytes(self) -> int:
        """Size of its keys, values and states in bytes; 0 once closed."""
        if self._shared is None:
            return 0
        return sum(_bytes(vars(layer)) for layer in self._shared.cache.layers)

    def use(self, owner: object, *, adapted: bool) -> PromptHead:
        """The encoded head. Raises `BackboneError` if the prefix is closed, belongs to another backbone or
        was made in another adapter state."""
        if self._shared is None:
            raise BackboneError("this prefix is closed; make a new one with backbone.prefix(frames)")
        if owner is not self._owner:
            raise BackboneError(
                "this prefix was made by another backbone; make one with this backbone's prefix(frames)"
            )
        if adapted != self._adapted:
            before, now = ("on", "off") if self._adapted else ("off", "on")
            raise BackboneError(
                f"this prefix was made with the adapter {before} and the adapter is {now}; make one for this "
                "state"
            )
        return self._shared

    def close(self) -> None:
        """Release the memory; calling it again does nothing."""
        self._shared = None


def _bytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return 0
