"""Vision features: a Qwen vision tower's output for a prompt's pixels, computed once and passed to the model
instead of the pixels.

If the tower is frozen, its features never change: the prompt, its replies, every log-prob pass and every
later training step can share them, with or without adapters on the language model. A store keeps those of
the frames that a model saw last: planner and answerer are often shown the same ones, and the vision tower
takes a large part of a short answer's time.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import torch
from cachetools import LRUCache
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import ModulesToSaveWrapper

from videopro.backbones.base import Interleaved, Stills
from videopro.backbones.qwen.inputs import EncodedPrompt, QwenInputs

if TYPE_CHECKING:
    from videopro.video import Frame

PIXELS = {"image": "pixel_values", "video": "pixel_values_videos"}
GRIDS = {"image": "image_grid_thw", "video": "video_grid_thw"}


def encode_vision(core: Any, row: EncodedPrompt, device: torch.device) -> EncodedPrompt:
    """The prompt with features instead of pixels. `core` is the module that has `visual` and the language
    model; the caller turns gradients off."""
    return encode_visions(core, [row], device)[0]


def encode_visions(core: Any, rows: Sequence[EncodedPrompt], device: torch.device) -> list[EncodedPrompt]:
    """Several prompts with features instead of pixels, from one call of the tower for all their videos and
    one for all their images. See `encode_vision`."""
    features: list[dict[str, Any]] = [{} for _ in rows]
    for kind, name in PIXELS.items():
        having = [number for number, row in enumerate(rows) if name in row.tensors]
        if not having:
            continue
        chosen = [rows[number] for number in having]
        pixels, grid = (_concatenated(chosen, [tensor], device)[tensor] for tensor in (name, GRIDS[kind]))
        output = getattr(core, f"get_{kind}_features")(pixels, grid, return_dict=True)
        counts = [len(row.tensors[GRIDS[kind]]) for row in chosen]
        for number, part in zip(having, _separated(output, counts), strict=True):
            features[number][kind] = part
    return [
        replace(
            row,
            tensors={name: tensor for name, tensor in row.tensors.items() if name not in PIXELS.values()},
            features=part,
        )
        for row, part in zip(rows, features, strict=True)
    ]


def _separated(output: Any, counts: Sequence[int]) -> list[Any]:
    """The features of each row, of which `counts` has the number of videos or images. The tower's last hidden
    state is dropped: the language model does not use it."""
    stops = list(accumulate(counts, initial=0))
    parts = [tuple(output.pooler_output[start:stop]) for start, stop in pairwise(stops)]
    levels: list[list[Any]] = [[] for _ in parts]
    if output.get("deepstack_features") is not None:
        tokens = [sum(map(len, part)) for part in parts]
        levels = _separate_levels(output.deepstack_features, counts, tokens)
    return [
        type(output)(pooler_output=part, **({"deepstack_features": level} if level else {}))
        for part, level in zip(parts, levels, strict=True)
    ]


def grids(rows: Sequence[EncodedPrompt], device: torch.device) -> dict[str, torch.Tensor]:
    """The patch grids (time, height, width) of all rows' videos and images, concatenated: (videos, 3)."""
    return _concatenated(rows, GRIDS.values(), device)


def visual_inputs(rows: Sequence[EncodedPrompt], device: torch.device) -> dict[str, Any]:
    """The model's visual inputs for these rows: grids, and features or pixels, concatenated.

    Raises ValueError if some rows have features and others have pixels.
    """
    visual_rows = [row for row in rows if row.tensors]
    encoded = [row for row in visual_rows if row.features]
    # The model takes either pixels or features for a whole batch.
    if encoded and len(encoded) < len(visual_rows):
        raise ValueError("some rows have features and others pixels; a batch must have one of them")
    inputs: dict[str, Any] = {**grids(rows, device), **_concatenated(rows, PIXELS.values(), device)}
    if encoded:
        inputs["mm_encoder_outputs"] = {
            kind: _concatenate_outputs(
                [row.features[kind] for row in encoded if kind in row.features], device
            )
            for kind in PIXELS
            if any(kind in row.features for row in encoded)
        }
    return inputs


def _concatenated(
    rows: Sequence[EncodedPrompt], names: Iterable[str], device: torch.device
) -> dict[str, torch.Tensor]:
    parts = {name: [row.tensors[name] for row in rows if name in row.tensors] for name in names}
    return {name: torch.cat(part).to(device) for name, part in parts.items() if part}


def _concatenate_outputs(outputs: Sequence[Any], device: torch.device) -> Any:
    """The features of several rows as one call of the tower would return them."""
    output_class = type(outputs[0])
    values: dict[str, Any] = {
        "pooler_output": tuple(part.to(device) for output in outputs for part in output.pooler_output)
    }
    if outputs[0].get("deepstack_features") is not None:
        values["deepstack_features"] = _concatenate_levels(outputs, device)
    return output_class(**values)


def _concatenate_levels(outputs: Sequence[Any], device: torch.device) -> list[Any]:
    """DeepStack's features of several rows as one call of the tower would return them: a tensor for each
    level, or a tuple of its videos' tensors, by the version."""
    levels: list[Any] = []
    for parts in zip(*(output.deepstack_features for output in outputs), strict=True):
        if isinstance(parts[0], torch.Tensor):
            levels.append(torch.cat([part.to(device) for part in parts]))
        else:
            levels.append(tuple(tensor.to(device) for part in parts for tensor in part))
    return levels


def _separate_levels(levels: Sequence[Any], visuals: Sequence[int], tokens: Sequence[int]) -> list[list[Any]]:
    """The inverse of `_concatenate_levels`: the levels of each row, by its numbers of videos and tokens."""
    rows: list[list[Any]] = [[] for _ in tokens]
    for level in levels:
        is_tensor = isinstance(level, torch.Tensor)
        start = 0
        for row, count in zip(rows, tokens if is_tensor else visuals, strict=True):
            row.append(level[start : start + count])
            start += count
    return rows


def features_bytes(features: Mapping[str, Any]) -> int:
    """The size of a row's features in bytes."""
    return sum(_bytes(value) for value in features.values())


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    if isinstance(value, Sequence):
        return sum(map(_bytes, value))
    return 0


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

    Frames are recognised by their pictures' arrays, which are read-only and shared by all who need a frame of
    a video (`videopro.video.FrameStore`). A frame that was decoded again is a new array, so its features are
    computed again. Hence no features are ever used for other pixels.

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
    """What a head's tokens and features depend on, except its system turn, as long as the arrays live."""
    texts = frames.texts if isinstance(frames, Interleaved) else ()
    pictures = ((id(frame.image), frame.time, frame.box) for frame in frames)
    return (isinstance(frames, Stills), texts, *pictures)
