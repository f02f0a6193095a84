"""The vision features of the frames that a model saw last, kept on its device: planner and answerer are often
shown the same frames, and the vision tower takes a large part of a short answer's time.

Frames are recognised by their pictures' arrays, which are read-only and shared by all who need a frame of a
video (`videopro.video.FrameStore`). A frame that was decoded again is a new array, so its features are
computed again. Hence no features are ever used for other pixels.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from cachetools import LRUCache
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import ModulesToSaveWrapper

from videopro.backbones.base import Interleaved, Stills
from videopro.backbones.qwen.features import encode_visions, features_bytes
from videopro.backbones.qwen.inputs import EncodedPrompt, QwenInputs

if TYPE_CHECKING:
    from videopro.video import Frame

_MOST_BYTES = 2**30
_SHARE_OF_FREE = 8
"""The store takes at most this part of the memory that a GPU has free when the store is first used."""

FramesAfterSystem = tuple[Sequence["Frame"], str]
"""What a prompt shows, and its system turn ("": the chat template's own)."""


@dataclass(frozen=True)
class _Entry:
    pictures: tuple[weakref.ref[Any], ...]
    heads: dict[str, EncodedPrompt]
    """By system turn: their tokens differ, their features do not."""

    @property
    def nbytes(self) -> int:
        return features_bytes(next(iter(self.heads.values())).features)

    def shows(self, frames: Sequence[Frame]) -> bool:
        """Whether its arrays are alive: the address of a dead one may be another's."""
        return all(ref() is frame.image for ref, frame in zip(self.pictures, frames, strict=True))


class FeatureStore:
    """Encodes the heads of prompts, with vision features in place of pixels. Not thread-safe.

    `in_training`: weights that require gradients change; heads keep their pixels if the tower has any."""

    def __init__(self, inputs: QwenInputs, *, in_training: bool) -> None:
        self._inputs = inputs
        self._in_training = in_training
        self._entries: LRUCache[object, _Entry] | None = None

    def clear(self) -> None:
        """Release the memory."""
        self._entries = None

    def heads(
        self, core: Any, prompts: Sequence[FramesAfterSystem], device: torch.device, *, adapted: bool
    ) -> list[EncodedPrompt]:
        """The heads of prompts. The tower of `core`, the module that has `visual`, sees in one call whatever
        is not in the store.

        If the adapter has weights in the tower, its states (`adapted`) share no features.
        """
        # Of a model that is not in training this says nothing: peft sets it where it turns adapters on.
        if self._in_training and any(weight.requires_grad for weight in core.visual.parameters()):
            return [self._head(frames, system) for frames, system in prompts]
        adapters = (BaseTunerLayer, ModulesToSaveWrapper)
        has_states = any(isinstance(module, adapters) for module in core.visual.modules())
        keys: list[object] = [(has_states and adapted, *_key(frames)) for frames, _ in prompts]
        # By key, because the store may be too small to keep all of them until the end.
        entries: dict[object, _Entry] = {}
        missing: dict[object, FramesAfterSystem] = {}
        for key, (frames, system) in zip(keys, prompts, strict=True):
            entry = self._entries.get(key) if self._entries is not None else None
            if entry is not None and entry.shows(frames):
                entries[key] = entry
            else:
                missing.setdefault(key, (frames, system))
        pixels = [self._head(frames, system) for frames, system in missing.values()]
        encoded = encode_visions(core, pixels, device)
        for (key, (frames, system)), head in zip(missing.items(), encoded, strict=True):
            entries[key] = _Entry(tuple(weakref.ref(frame.image) for frame in frames), {system: head})
            self._keep(key, entries[key], device)
        return [self._after(entries[key], *part) for key, part in zip(keys, prompts, strict=True)]

    def _head(self, frames: Sequence[Frame], system: str) -> EncodedPrompt:
        return self._inputs.head(frames, system=system or None)

    def _after(self, entry: _Entry, frames: Sequence[Frame], system: str) -> EncodedPrompt:
        if system not in entry.heads:
            seen = next(iter(entry.heads.values()))
            head = self._head(frames, system)
            entry.heads[system] = replace(head, tensors=seen.tensors, features=seen.features)
        return entry.heads[system]

    def _keep(self, key: object, entry: _Entry, device: torch.device) -> None:
        if self._entries is None:
            most = _MOST_BYTES
            if device.type == "cuda":
                most = min(most, torch.cuda.mem_get_info(device)[0] // _SHARE_OF_FREE)
            self._entries = LRUCache(most, lambda entry: entry.nbytes)
        # The cache raises for an entry that is larger than all of it.
        if entry.nbytes <= self._entries.maxsize:
            self._entries[key] = entry


def _key(frames: Sequence[Frame]) -> tuple[object, ...]:
    """What a head's tokens and features depend on besides its system turn, as long as the arrays live."""
    texts = frames.texts if isinstance(frames, Interleaved) else ()
    pictures = ((id(frame.image), frame.time, frame.box) for frame in frames)
    return (isinstance(frames, Stills), texts, *pictures)
