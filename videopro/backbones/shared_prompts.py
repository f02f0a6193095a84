"""Rows that begin alike attend to one copy of what they share.

Several replies to a prompt, or several questions about a video, begin with the same keys and values. The
library's cache holds them once a row, and each pass reads them all: for a long video that is most of what
writing costs, in memory and in time. Here they are held once a prompt; a row has keys and values of its own
tokens only. Equals ordinary attention up to rounding. For layers of full attention and passes without
gradients. Knows tensors; must not know prompts, replies or what is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import sdpa_mask

from videopro.backbones.growing_cache import GrowingLayer

_NAME = "videopro_shared_prompts"
_ATTENDS = ("sdpa", "eager")
"""Ways to attend in place of which this one may stand: those that take a mask of every row."""

_cache: ContextVar[Cache | None] = ContextVar("shared prompts", default=None)


class SharedLayer(GrowingLayer):
    """A layer whose rows begin with prompts: `keys` and `values`, (rows, heads, tokens, size), are of each
    row's own tokens."""

    def __init__(self, prompts: DynamicLayer, of: torch.Tensor) -> None:
        """`prompts`: a layer with a row a prompt; it is read and not changed. `of`: (rows,), the prompt of
        each row."""
        super().__init__(DynamicLayer())
        assert prompts.keys is not None
        assert prompts.values is not None
        self.prompt_keys, self.prompt_values = prompts.keys, prompts.values
        self.lazy_initialization(prompts.keys, prompts.values)
        self.keys, self.values = (
            one.new_empty((len(of), one.shape[1], 0, one.shape[3])) for one in (prompts.keys, prompts.values)
        )
        self._arrange(of)

    def _arrange(self, of: torch.Tensor) -> None:
        self._of = of
        counts = torch.bincount(of, minlength=len(self.prompt_keys))
        width = int(counts.max())
        # Rows side by side with the others of their prompt: (prompts, width) row numbers, filled up with 0,
        # and for each row its place among them.
        order = torch.argsort(of, stable=True)
        nth = torch.arange(len(of), device=of.device) - (counts.cumsum(0) - counts)[of[order]]
        self.places = torch.empty_like(of)
        self.places[order] = of[order] * width + nth
        self.slots = of.new_zeros(len(counts) * width)
        self.slots[self.places] = torch.arange(len(of), device=of.device)
        self.slots = self.slots.view(len(counts), width)

    def get_seq_length(self) -> int:
        """Tokens of a row, with its prompt's."""
        assert self.keys is not None
        return self.prompt_keys.shape[-2] + self.keys.shape[-2]

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows."""
        self.reorder_cache(indices)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:  # type: ignore[override]
        """Have these rows, each as often as it is named."""
        assert self.keys is not None
        assert self.values is not None
        self.keys, self.values = self.keys[beam_idx], self.values[beam_idx]
        of = self._of[beam_idx]
        used, of = of.unique(return_inverse=True)
        if len(used) < len(self.prompt_keys):
            self.prompt_keys, self.prompt_values = self.prompt_keys[used], self.prompt_values[used]
        self._arrange(of)


def can_share(model: PreTrainedModel, cache: Cache) -> bool:
    """Whether the rows of a cache may share their prompts."""
    config = model.config.get_text_config()
    plain = all(type(layer) is DynamicLayer or type(layer) is GrowingLayer for layer in cache.layers)
    return plain and config._attn_implementation in _ATTENDS


def share(cache: Cache, of: torch.Tensor) -> Cache:
    """A cache of rows that begin as those of `cache`, which is left as it is; `of`: (rows,), as which."""
    return Cache(layers=[SharedLayer(layer, of) for layer in cache.layers])  # type: ignore[arg-type]


@contextmanager
def attending(model: PreTrainedModel, cache: Cache | None) -> Iterator[None]:
    """Within the block the model's passes over a cache made by `share` attend to its prompts too."""
    if cache is None or not any(isinstance(layer, SharedLayer) for layer in cache.layers):
        yield
        return
    config = model.config.get_text_config()
    before, token = config._attn_implementation, _cache.set(cache)
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        _cache.reset(token)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of `query`, (rows, heads, new, size), to the layer's prompts and to the rows' own `key` and
    `value`, (rows, fewer heads, tokens, size); `attention_mask`: (rows, 1, new, all tokens). Gives (rows,
    new, heads, size)."""
    cache = _cache.get()
    assert cache is not None
    layer: Any = cache.layers[module.layer_idx]
    rows, heads, new, size = query.shape
    shared = key.shape[1]
    # The heads that share keys, side by side as if they were more tokens.
    asked = query.reshape(rows, shared, heads // shared * new, size)
    asked = asked * (scaling if scaling is not None else size**-0.5)
    together = _beside(asked, layer.slots)
    scores = torch.cat(
        [
            _apart(together @ layer.prompt_keys.transpose(-1, -2), layer),
            asked @ key.transpose(-1, -2),
        ],
        dim=-1,
    ).view(rows, shared, -1, new, layer.get_seq_length())
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask[:, :, None], torch.finfo(scores.dtype).min)
    else:
        scores = _causal(scores)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype).view(*asked.shape[:3], -1)
    to_prompt, to_own = weights.split([layer.prompt_keys.shape[-2], key.shape[-2]], dim=-1)
    found = _apart(_beside(to_prompt, layer.slots) @ layer.prompt_values, layer) + to_own @ value
    return found.view(rows, heads, new, -1).transpose(1, 2).contiguous(), None


def _beside(values: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """(rows, heads, n, size) as (prompts, heads, rows of a prompt x n, size)."""
    _, heads, n, size = values.shape
    prompts, width = slots.shape
    some = values[slots.flatten()].view(prompts, width, heads, n, size)
    return some.transpose(1, 2).reshape(prompts, heads, width * n, size)


def _apart(values: torch.Tensor, layer: SharedLayer) -> torch.Tensor:
    """The other way round."""
    prompts, heads, whole, size = values.shape
    width = layer.slots.shape[1]
    some = values.view(prompts, heads, width, whole // width, size).transpose(1, 2)
    return some.reshape(prompts * width, heads, whole // width, size)[layer.places]


def _causal(scores: torch.Tensor) -> torch.Tensor:
    """Where there is no mask: no new token sees those behind it."""
    new, whole = scores.shape[-2:]
    if new == 1:
        return scores
    seen = torch.ones(new, whole, dtype=torch.bool, device=scores.device).tril(whole - new)
    return scores.masked_fill(~seen, torch.finfo(scores.dtype).min)


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)
