"""Lays a batch of rows out for the model: padded to one of a few widths, or joined into one row of documents.

    document 1 | document 2 | document 3 | padding

In a joined row no token is padding but at its end, and a document attends to itself only. Each has the
positions that it has in a row of its own, so the losses and gradients are those of separate rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from videopro.backbones.qwen import QwenRunner
from videopro.errors import ConfigError
from videopro.train.finetune.collator import IGNORE_INDEX
from videopro.train.packing import NO_BRANCH, PADDING, RowShape

_LEAST_WIDTH, _LEAST_JOINED = 128, 256
_TOKENS = {"input_ids": 0, "attention_mask": 0, "mm_token_type_ids": 0, "labels": IGNORE_INDEX}
"""The tensors of a batch that have a value for each token, and that of padding."""


def check_joinable(model: PreTrainedModel, *, aux_loss: bool) -> None:
    """Raise ConfigError for a model whose documents cannot share a row. `aux_loss`: its router's loss is part
    of the training."""
    attention = str(model.config._attn_implementation)
    if QwenRunner(model, ends=(), pad=0).is_recurrent:
        raise ConfigError(
            "padding_free is true, but some layers of this model are recurrent, and would carry their state "
            "from one document to the next; set padding_free: false"
        )
    if aux_loss:
        raise ConfigError(
            "padding_free is true, but this model's router loss is computed over separate rows; set "
            "padding_free: false, or router_aux_loss_coef: 0"
        )
    if attention != "sdpa" and not attention.startswith("flash_attention"):
        raise ConfigError(
            f"padding_free is true, but attention is {attention!r}, which takes no mask of documents; set "
            "attn_implementation: sdpa, or flash_attention_2 where flash-attn is installed"
        )


def widened(batch: Mapping[str, Any], shape: RowShape) -> dict[str, Any]:
    """The batch, padded on the right to a width of `shape`, unless all rows are equally long: it then has no
    padding, and its attention needs no mask."""
    width = batch["input_ids"].shape[1]
    missing = shape.width(width, least=_LEAST_WIDTH) - width
    if missing == 0 or bool(batch["attention_mask"].all()):
        return dict(batch)
    return {
        name: pad(value, (0, missing), value=_TOKENS[name]) if name in _TOKENS else value
        for name, value in batch.items()
    }


def joined(batch: Mapping[str, Any], core: Any, shape: RowShape) -> dict[str, Any]:
    """The batch as one row of documents. `core`: the module that has `visual` and the language model."""
    mask = batch["attention_mask"].bool()
    rows, width = mask.shape
    columns = torch.arange(width, device=mask.device).expand(rows, -1)
    extra = {
        name: batch[name]
        for name in ("image_grid_thw", "video_grid_thw", "second_per_grid_ts")
        if name in batch
    }
    visual, _ = core.get_rope_index(
        batch["input_ids"], batch["mm_token_type_ids"], attention_mask=batch["attention_mask"], **extra
    )
    # The first row restarts with each document: by it transformers tells documents apart.
    positions = torch.cat([columns[None], visual.to(columns)])[:, mask][:, None]
    documents = torch.arange(rows, device=mask.device)[:, None].expand(-1, width)[mask][None]
    tokens = {name: value[mask][None] for name, value in batch.items() if name in _TOKENS}
    inputs = {name: value for name, value in batch.items() if name not in _TOKENS}
    del tokens["attention_mask"]
    if core.config._attn_implementation != "sdpa":
        # Flash attention finds the documents by their positions.
        return {**inputs, **tokens, "position_ids": positions}
    length = documents.shape[1]
    missing = shape.width(length, least=_LEAST_JOINED) - length
    tokens = {name: pad(value, (0, missing), value=_TOKENS[name]) for name, value in tokens.items()}
    segments = pad(documents, (0, missing), value=PADDING)
    return {
        **inputs,
        **tokens,
        "position_ids": pad(positions, (0, missing)),
        "attention_mask": shape.mask(segments, torch.full_like(segments, NO_BRANCH)),
    }
