"""Caches of keys and values: with room for more tokens, for rows that share a prompt, at one place for
captured steps, and for the heads of several prompts.

Several replies to a prompt, or several questions about a video, begin with the same keys and values. The
library's cache stores them for each row, and each pass reads them all: for a long video that is most of the
memory and time of generation. In a `SharedCache` a row stores only the keys and values of its own tokens, and
attention reads the prompt's once. Equals ordinary attention up to rounding. Only for full-attention layers
and passes without gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import sdpa_mask

_ROOM = 128
"""Tokens allocated at once."""


# ---- room for more tokens ----------------------------------------------------------------------------------


class GrowingLayer(DynamicLayer):
    """A DynamicCache layer whose `keys` and `values`, (rows, heads, tokens, size), are the used part of
    larger tensors: the library's own copies the whole prompt for each token of a reply. Not for passes with
    gradients: their saved tensors would be overwritten."""

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
    """Turn the cache's dynamic layers into growing ones. Layers of other types do not change."""
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


# ---- rows that share a prompt ------------------------------------------------------------------------------

_NAME = "videopro_shared_prompts"
REPLACEABLE = ("sdpa", "eager")
"""Attention implementations that this one can replace: those that take a mask for every row."""

_cache: ContextVar[SharedCache | None] = ContextVar("shared prompts", default=None)


class PromptRows:
    """Which prompt each row begins with, on one device; computed once for all layers there."""

    def __init__(self, of: torch.Tensor, prompts: int, width: int | None = None) -> None:
        """`of`: (rows,), the index of each row's prompt; `prompts`: how many prompts there are; `width`: room
        for rows of one prompt, at least the most that one has (None: just these)."""
        self.of = of
        self.regular = False
        counts = torch.bincount(of, minlength=prompts)
        width = int(counts.max()) if width is None else width
        order = torch.argsort(of, stable=True)
        nth = torch.arange(len(of), device=of.device) - (counts.cumsum(0) - counts)[of[order]]
        self.indices = torch.empty_like(of)
        """(rows,): the index of each row in the flattened `slots`."""
        self.indices[order] = of[order] * width + nth
        slots = of.new_zeros(prompts * width)
        slots[self.indices] = torch.arange(len(of), device=of.device)
        self.slots = slots.view(prompts, width)
        """(prompts, most rows of one prompt): the rows of each prompt, padded with 0."""
        self._elsewhere: dict[torch.device, PromptRows] = {}

    @classmethod
    def placed(cls, slots: torch.Tensor, indices: torch.Tensor, *, regular: bool) -> PromptRows:
        """An assignment that these tensors hold, and whose values may change. `regular`: the rows of each
        prompt lie together, as many for each, whatever the tensors hold."""
        rows = cls.__new__(cls)
        rows.regular = regular
        rows.slots, rows.indices, rows.of = slots, indices, indices
        rows._elsewhere = {}
        return rows

    def on(self, device: torch.device) -> PromptRows:
        """The same for layers on another device, where a model is spread over several."""
        if device == self.of.device:
            return self
        if device not in self._elsewhere:
            there = self._elsewhere[device] = copy.copy(self)
            there.of, there.indices, there.slots = (
                tensor.to(device) for tensor in (self.of, self.indices, self.slots)
            )
        return self._elsewhere[device]


class SharedLayer(GrowingLayer):
    """A cache layer whose rows begin with shared prompts: `keys` and `values`, (rows, heads, tokens, size),
    hold only each row's own tokens."""

    def __init__(self, prompts: DynamicLayer, rows: PromptRows) -> None:
        """`prompts`: a layer with one row per prompt; it is not changed."""
        super().__init__(DynamicLayer())
        assert prompts.keys is not None
        assert prompts.values is not None
        self.prompt_keys, self.prompt_values = prompts.keys, prompts.values
        self.lazy_initialization(prompts.keys, prompts.values)
        self.keys, self.values = (
            tensor.new_empty((len(rows.of), tensor.shape[1], 0, tensor.shape[3]))
            for tensor in (prompts.keys, prompts.values)
        )
        self.rows = rows.on(prompts.keys.device)

    def get_seq_length(self) -> int:
        """Tokens of a row, including its prompt's."""
        assert self.keys is not None
        return self.prompt_keys.shape[-2] + self.keys.shape[-2]

    def keep(self, chosen: torch.Tensor, prompts: torch.Tensor, rows: PromptRows) -> None:
        """Keep only the rows `chosen` and these prompts; `rows` is their new assignment."""
        assert self.keys is not None
        assert self.values is not None
        device = self.keys.device
        chosen, prompts = chosen.to(device), prompts.to(device)
        self.keys, self.values = self.keys[chosen], self.values[chosen]
        if len(prompts) < len(self.prompt_keys):
            self.prompt_keys, self.prompt_values = self.prompt_keys[prompts], self.prompt_values[prompts]
        self.rows = rows.on(device)


class SharedCache(Cache):
    """A cache whose rows begin with the rows of another cache."""

    layers: list[SharedLayer]  # type: ignore[assignment]

    def __init__(self, prompts: Cache, of: torch.Tensor) -> None:
        """`prompts` is not changed; `of`: (rows,), the row of `prompts` that each row begins with."""
        first: Any = prompts.layers[0]
        self._rows = PromptRows(of, len(first.keys))
        super().__init__(layers=[SharedLayer(layer, self._rows) for layer in prompts.layers])  # type: ignore[arg-type]

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Select these rows, each as often as it is listed."""
        prompts, of = self._rows.of[beam_idx].unique(return_inverse=True)
        self._rows = PromptRows(of, len(prompts))
        for layer in self.layers:
            layer.keep(beam_idx, prompts, self._rows)


def can_share(model: PreTrainedModel, cache: Cache) -> bool:
    """Whether the rows of a cache can share their prompts with this model."""
    config = model.config.get_text_config()
    plain = all(type(layer) is DynamicLayer or type(layer) is GrowingLayer for layer in cache.layers)
    return plain and config._attn_implementation in REPLACEABLE


@contextmanager
def attending(model: PreTrainedModel, cache: Cache) -> Iterator[None]:
    """Within the block, the model's passes over a `SharedCache` attend to its prompts too."""
    if not isinstance(cache, SharedCache):
        yield
        return
    config = model.config.get_text_config()
    before, token = config._attn_implementation, _cache.set(cache)
    # A setting of the whole model: only one thread at a time runs it (`QwenBackbone._guard`).
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
    `value`, (rows, key heads, tokens, size); `attention_mask`: (rows, 1, new, all tokens). Returns (rows,
    new, heads, size)."""
    cache = _cache.get()
    assert cache is not None
    layer = cache.layers[module.layer_idx]
    rows, heads, new, size = query.shape
    shared = key.shape[1]
    # Heads that share keys are treated as more tokens.
    grouped = query.reshape(rows, shared, heads // shared * new, size)
    grouped = grouped * (scaling if scaling is not None else size**-0.5)
    if layer.rows.regular:
        assert attention_mask is not None
        output = _attend_regularly(layer, grouped, key, value, attention_mask)
        return output.reshape(rows, 1, heads, -1), None
    by_prompt = _by_prompt(grouped, layer.rows.slots)
    scores = torch.cat(
        [
            _by_row(by_prompt @ layer.prompt_keys.transpose(-1, -2), layer.rows),
            grouped @ key.transpose(-1, -2),
        ],
        dim=-1,
    ).view(rows, shared, -1, new, layer.get_seq_length())
    if attention_mask is not None:
        # The least number and not -inf: a row of padding alone would become NaN.
        scores = scores.masked_fill(~attention_mask[:, :, None], torch.finfo(scores.dtype).min)
    else:
        scores = _causal(scores)
    # In float32, as the library's own attention does.
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype).view(*grouped.shape[:3], -1)
    to_prompt, to_row = weights.split([layer.prompt_keys.shape[-2], key.shape[-2]], dim=-1)
    from_prompt = _by_row(_by_prompt(to_prompt, layer.rows.slots) @ layer.prompt_values, layer.rows)
    output = from_prompt + to_row @ value
    return output.view(rows, heads, new, -1).transpose(1, 2).contiguous(), None


def _attend_regularly(
    layer: SharedLayer, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The same for one new token a row, where the rows of each prompt lie together. `query`: (rows, key
    heads, n, size), scaled; returns (rows, key heads, n, size). Nothing is gathered, and the scores are
    written once."""
    prompts, width = layer.rows.slots.shape
    _, heads, n, size = query.shape
    length = layer.prompt_keys.shape[-2]
    by_prompt = query.view(prompts, width, heads, n, size).transpose(1, 2)
    to_prompt = by_prompt.reshape(prompts, heads, width * n, size) @ layer.prompt_keys.transpose(-1, -2)
    to_row = query @ key.transpose(-1, -2)
    scores = torch.cat(
        [
            to_prompt.view(prompts, heads, width, n, length),
            to_row.view(prompts, width, heads, n, -1).transpose(1, 2),
        ],
        dim=-1,
    )
    hidden = ~mask.view(prompts, 1, width, 1, -1)
    scores.masked_fill_(hidden, torch.finfo(scores.dtype).min)
    # Of 16-bit scores too, softmax is computed in float32.
    weights = scores.softmax(-1)
    from_prompt = weights.view(prompts, heads, width * n, -1)[..., :length] @ layer.prompt_values
    continuation = weights[..., length:].transpose(1, 2).reshape(prompts * width, heads, n, -1)
    by_row = from_prompt.view(prompts, heads, width, n, size).transpose(1, 2)
    return by_row.reshape(prompts * width, heads, n, size) + continuation @ value


def _by_prompt(values: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Turn (rows, heads, n, size) into (prompts, heads, rows of a prompt x n, size)."""
    _, heads, n, size = values.shape
    prompts, width = slots.shape
    grouped = values[slots.flatten()].view(prompts, width, heads, n, size)
    return grouped.transpose(1, 2).reshape(prompts, heads, width * n, size)


def _by_row(values: torch.Tensor, rows: PromptRows) -> torch.Tensor:
    """The inverse of `_by_prompt`."""
    prompts, heads, total, size = values.shape
    width = rows.slots.shape[1]
    separated = values.view(prompts, heads, width, total // width, size).transpose(1, 2)
    return separated.reshape(prompts * width, heads, total // width, size)[rows.indices]


def _causal(scores: torch.Tensor) -> torch.Tensor:
    """Apply a causal mask: no new token attends to later ones."""
    new, total = scores.shape[-2:]
    if new == 1:
        return scores
    visible = torch.ones(new, total, dtype=torch.bool, device=scores.device).tril(total - new)
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min)


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)


# ---- caches that stay at one place -------------------------------------------------------------------------


class KeyValueStore:
    """Memory for the keys and values of one model, taken anew by each batch of replies: captured steps refer
    to its addresses. It grows to the largest batch."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[str, int], torch.Tensor] = {}
        self.grown = 0
        """How often a tensor was replaced by a larger one; steps captured before refer to the former."""

    @property
    def nbytes(self) -> int:
        """The memory that it has taken."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def take(self, name: str, layer: int, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        """A tensor of this shape, with whatever it held before."""
        size = 1
        for length in shape:
            size *= length
        stored = self._tensors.get((name, layer))
        if stored is None or stored.numel() < size:
            self.grown += stored is not None
            # Freed first: both together may not fit.
            self._tensors.pop((name, layer), None)
            stored = None
            stored = self._tensors[name, layer] = torch.empty(size, dtype=like.dtype, device=like.device)
        return stored[:size].view(*shape)

    def release(self) -> None:
        """Free the memory."""
        self.grown += 1
        self._tensors.clear()


class StaticLayer(SharedLayer):
    """A layer whose `keys` and `values`, (rows, heads, room, size), are written at `index`."""

    def __init__(
        self,
        prompts: tuple[torch.Tensor, torch.Tensor],
        continuations: tuple[torch.Tensor, torch.Tensor],
        rows: PromptRows,
        index: torch.Tensor,
    ) -> None:
        """`prompts`, `continuations`: keys and values; `index`: (1,), of a step's token in a continuation."""
        # What it has is complete, so that no initialization of the library's may replace it.
        DynamicLayer.__init__(self)  # type: ignore[no-untyped-call, unused-ignore]
        self.prompt_keys, self.prompt_values = prompts
        self.keys, self.values = continuations
        self.dtype, self.device = self.keys.dtype, self.keys.device
        self.is_initialized = True
        self.rows = rows
        self._index = index
        self.read = self.keys.shape[2]
        """How many of a row's own tokens attention reads."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a token of each row; returns the rows' own keys and values."""
        assert self.keys is not None
        assert self.values is not None
        self.keys.index_copy_(2, self._index, key_states)
        self.values.index_copy_(2, self._index, value_states)
        return self.keys[:, :, : self.read], self.values[:, :, : self.read]

    def get_seq_length(self) -> int:
        """Tokens of a row that attention reads, its prompt's included."""
        return self.prompt_keys.shape[-2] + self.read


class StaticCache(SharedCache):
    """A cache of `StaticLayer`s, for steps of one token a row. Nothing in a step depends on a number that the
    host knows, so that it can be captured as a CUDA graph and replayed."""

    def __init__(self, layers: list[StaticLayer]) -> None:
        Cache.__init__(self, layers=layers)  # type: ignore[arg-type]

    def read(self, tokens: int) -> None:
        """Let attention read this many of the rows' own tokens."""
        for layer in self.layers:
            assert isinstance(layer, StaticLayer)
            layer.read = tokens

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Not possible: its rows stay where they are."""
        raise NotImplementedError("rows of a static cache are chosen when a batch is laid out")


# ---- heads of prompts --------------------------------------------------------------------------------------


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


def join_heads(heads: Sequence[PromptHead], device: torch.device) -> JoinedHeads:
    """Join the heads of a batch's rows, one for each row, so that replies about several videos are written
    together: a step reads all weights, whatever the number of its rows. Several different heads are copied
    into a new cache, padded on the left, and the padding is masked."""
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
