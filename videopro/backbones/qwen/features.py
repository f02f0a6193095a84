"""What a Qwen vision tower makes of a prompt's pixels, computed once and given to the model in their place.

Where the tower is frozen its features are as constant as the pixels: the prompt, its replies, every log-prob
pass and every later step may share them, adapters on the language model or not. Knows models and encoded
prompts; must not know what is asked about them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from videopro.backbones.qwen.inputs import EncodedPrompt

PIXELS = {"image": "pixel_values", "video": "pixel_values_videos"}
GRIDS = {"image": "image_grid_thw", "video": "video_grid_thw"}


def takes_features(core: type) -> bool:
    """Whether modules of the class that holds `visual` take features in place of pixels: those of
    transformers 5.18 and newer. Older ones pass them on to the language model, which leaves them out."""
    return "mm_encoder_outputs" in inspect.signature(core.forward).parameters  # type: ignore[attr-defined]


def encode_vision(core: Any, row: EncodedPrompt, device: torch.device) -> EncodedPrompt:
    """The prompt with features in place of its pixels. `core` is the module that holds `visual` and the
    language model; gradients are for the caller to turn off."""
    features: dict[str, Any] = {}
    for kind, name in PIXELS.items():
        if name in row.tensors:
            made = getattr(core, f"get_{kind}_features")(
                row.tensors[name].to(device), row.tensors[GRIDS[kind]].to(device), return_dict=True
            )
            # Only what the language model takes: the tower's last hidden state would be kept for nothing.
            features[kind] = type(made)(**{key: made[key] for key in _TAKEN if made.get(key) is not None})
    kept = {name: one for name, one in row.tensors.items() if name not in PIXELS.values()}
    return replace(row, tensors=kept, features=features)


_TAKEN = ("pooler_output", "deepstack_features")


def grids(rows: Sequence[EncodedPrompt], device: torch.device) -> dict[str, torch.Tensor]:
    """Patches of each row's videos and images in time, height and width, (videos, 3), one after another."""
    return _joined(rows, GRIDS.values(), device)


def visual_inputs(rows: Sequence[EncodedPrompt], device: torch.device) -> dict[str, Any]:
    """What the model takes for what these rows show: grids, and features or pixels, one after another.

    Rows that show something must be alike in having features or pixels (ValueError).
    """
    showing = [row for row in rows if row.tensors]
    looked = [row for row in showing if row.features]
    if looked and len(looked) < len(showing):
        raise ValueError("some rows have features and others pixels; a model takes one of them")
    made: dict[str, Any] = {**grids(rows, device), **_joined(rows, PIXELS.values(), device)}
    if looked:
        made["mm_encoder_outputs"] = {
            kind: _concatenate_outputs([row.features[kind] for row in looked if kind in row.features], device)
            for kind in PIXELS
            if any(kind in row.features for row in looked)
        }
    return made


def _joined(
    rows: Sequence[EncodedPrompt], names: Iterable[str], device: torch.device
) -> dict[str, torch.Tensor]:
    parts = {name: [row.tensors[name] for row in rows if name in row.tensors] for name in names}
    return {name: torch.cat(part).to(device) for name, part in parts.items() if part}


def _concatenate_outputs(outputs: Sequence[Any], device: torch.device) -> Any:
    """Features of several rows as if the tower had seen them in one call."""
    kind = type(outputs[0])
    made: dict[str, Any] = {
        "pooler_output": tuple(part.to(device) for output in outputs for part in output.pooler_output)
    }
    if outputs[0].get("deepstack_features") is not None:
        layers = zip(*(output.deepstack_features for output in outputs), strict=True)
        made["deepstack_features"] = [
            tuple(one.to(device) for part in layer for one in part) for layer in layers
        ]
    return kind(**made)


def features_bytes(features: Mapping[str, Any]) -> int:
    """Bytes that a row's features hold."""
    return sum(_bytes(one) for one in features.values())


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    if isinstance(value, Sequence):
        return sum(map(_bytes, value))
    return 0
