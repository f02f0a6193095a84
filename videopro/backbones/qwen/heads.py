"""A video's shared prefix on a Qwen model: its visual encoding, keys and values, computed once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from videopro.backbones.qwen.caches import can_share

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class PromptHead:
    """A prompt's head after its forward pass: what later tokens need."""

    cache: Cache
    length: int
    next_position: int
    """M-RoPE position of the next token; a video's positions differ from its tokens' indices."""


@dataclass(frozen=True)
class JoinedHeads:
    """The heads of a batch's rows; those of several rows once."""

    cache: Cache
    """A row for each head; the cache of the only head itself, which must not be changed."""
    of: torch.Tensor
    """(rows,), the head of each row."""
    mask: torch.Tensor
    """(rows, longest head), 1 for a token and 0 for padding."""
    deltas: torch.Tensor
    """(rows, 1), M-RoPE: offset from a later token's index in the row to its position."""
    heads: tuple[PromptHead, ...]
    """The head of each row of `cache`."""


def can_join(model: PreTrainedModel, head: PromptHead) -> bool:
    """Whether a head can share a batch with others on this model: all its layers are full attention, and its
    attention takes a mask for every row."""
    return can_share(model, head.cache)


def join_heads(heads: Sequence[PromptHead], device: torch.device) -> JoinedHeads:
    """Join the heads of a batch's rows, one for each row. Several different ones are copied into a new
    cache."""
    # By identity: a head that several rows share is stored once.
    distinct = list({id(head): head for head in heads}.values())
    indices = {id(head): index for index, head in enumerate(distinct)}
    longest = max(head.length for head in distinct)
    cache = distinct[0].cache
    if len(distinct) > 1:
        cache = copy.copy(cache)
        layers = zip(*(head.cache.layers for head in distinct), strict=True)
        cache.layers = [_join_layers(parts, longest) for parts in layers]
    of = torch.tensor([indices[id(head)] for head in heads], device=device)
    lengths = torch.tensor([head.length for head in distinct], device=device)
    mask = (torch.arange(longest, device=device) >= longest - lengths[:, None]).long()
    deltas = torch.tensor([[head.next_position - head.length] for head in distinct], device=device)
    return JoinedHeads(cache, of, mask[of], deltas[of], tuple(distinct))


def _join_layers(layers: Sequence[DynamicLayer], longest: int) -> DynamicLayer:
    joined = copy.copy(layers[0])
    joined.keys = torch.cat([_padded(layer.keys, longest) for layer in layers])
    joined.values = torch.cat([_padded(layer.values, longest) for layer in layers])
    return joined


def _padded(tensor: torch.Tensor | None, longest: int) -> torch.Tensor:
    """(1, heads, tokens, size) with zeros before the tokens, up to `longest` of them."""
    assert tensor is not None
    return pad(tensor, (0, 0, longest - tensor.shape[-2], 0))
