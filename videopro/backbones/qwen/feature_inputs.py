"""Vision features as inputs of models whose class takes only pixels: transformers before 5.18.

Two hooks do what the newer versions do themselves. The first writes the features into the embeddings of the
placeholder tokens; the second hands DeepStack's to the language model. They hold no state, so copies of a
model, adapters and gradient checkpointing work as with pixels.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_FEATURES = "mm_encoder_outputs"
_DEEPSTACK = "videopro_deepstack"


def accept_features(core: Any) -> None:
    """Let `core`, the module that has `visual` and the language model, take `mm_encoder_outputs`. Does
    nothing where its class takes them, or if it was called before."""
    if _takes_features(type(core)) or _embed_features in core._forward_pre_hooks.values():
        return
    core.register_forward_pre_hook(_embed_features, with_kwargs=True)
    core.language_model.register_forward_pre_hook(_add_deepstack, with_kwargs=True)


def _takes_features(core: type) -> bool:
    return _FEATURES in inspect.signature(core.forward).parameters  # type: ignore[attr-defined]


def _embed_features(
    core: Any, arguments: tuple[Any, ...], inputs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    features = inputs.get(_FEATURES)
    if not features:
        return None
    ids = inputs["input_ids"]
    embeddings = core.get_input_embeddings()(ids)
    masks = {kind: ids == getattr(core.config, f"{kind}_token_id") for kind in features}
    for kind, output in features.items():
        rows = torch.cat(tuple(output.pooler_output))
        embeddings = _written(embeddings, masks[kind], rows)
    # `input_ids` and `inputs_embeds` exclude each other.
    passed = {name: value for name, value in inputs.items() if name not in (_FEATURES, "input_ids")}
    passed["inputs_embeds"] = embeddings
    deepstack = _deepstack(features, masks)
    if deepstack:
        # The core passes what it does not know on to the language model.
        passed[_DEEPSTACK] = deepstack
    return arguments, passed


def _deepstack(features: Mapping[str, Any], masks: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The language model's inputs for DeepStack: features of each level in the order of the visual tokens."""
    levels = {
        kind: [part if isinstance(part, torch.Tensor) else torch.cat(tuple(part)) for part in layers]
        for kind, output in features.items()
        if (layers := output.get("deepstack_features")) is not None
    }
    if not levels:
        return {}
    visual = torch.stack(list(masks.values())).any(0)
    merged = []
    for parts in zip(*levels.values(), strict=True):
        if len(parts) == 1:
            merged.append(parts[0])
            continue
        total = sum(map(len, parts))
        level = parts[0].new_zeros(total, parts[0].shape[-1])
        for kind, part in zip(levels, parts, strict=True):
            level = _written(level, masks[kind][visual], part)
        merged.append(level)
    return {"visual_pos_masks": visual, "deepstack_visual_embeds": merged}


def _written(target: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """`target`, (..., width), with `rows`, (n, width), at the n places of `mask`."""
    return target.masked_scatter(mask.to(target.device)[..., None], rows.to(target.device, target.dtype))


def _add_deepstack(
    language: Any, arguments: tuple[Any, ...], inputs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    deepstack = inputs.pop(_DEEPSTACK, None)
    return (arguments, {**inputs, **deepstack}) if deepstack is not None else None


def concatenate_levels(outputs: Sequence[Any], device: torch.device) -> list[Any]:
    """DeepStack's features of several rows as one call of the tower would return them: a tensor for each
    level, or a tuple of its videos' tensors, by the version."""
    levels: list[Any] = []
    for parts in zip(*(output.deepstack_features for output in outputs), strict=True):
        if isinstance(parts[0], torch.Tensor):
            levels.append(torch.cat([part.to(device) for part in parts]))
        else:
            levels.append(tuple(tensor.to(device) for part in parts for tensor in part))
    return levels


def separate_levels(levels: Sequence[Any], visuals: Sequence[int], tokens: Sequence[int]) -> list[list[Any]]:
    """The inverse of `concatenate_levels`: the levels of each row, by its numbers of videos and of tokens."""
    rows: list[list[Any]] = [[] for _ in tokens]
    for level in levels:
        is_tensor = isinstance(level, torch.Tensor)
        start = 0
        for row, count in zip(rows, tokens if is_tensor else visuals, strict=True):
            row.append(level[start : start + count])
            start += count
    return rows
