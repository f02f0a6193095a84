"""Writes replies: samples a token of every row, runs the model on it, until each reply has ended.

Rows whose prompts can be shared are written by `StaticBatch`, in steps that do not wait for the host; those
of other models, with recurrent layers or spread over several devices, by a forward pass of the library for
each token.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import Cache, PreTrainedModel

from videopro.backbones.qwen.caches import KeyValueStore, SharedCache, can_share
from videopro.backbones.qwen.layers import MergedWeight
from videopro.backbones.qwen.replies import Replies, TokenSampler
from videopro.backbones.qwen.static_batch import STEP_WINDOW, Captures, Layout, RowsSoFar, StaticBatch

Between = Callable[[int], RowsSoFar | None]
_AT_ONCE = 8
"""Steps between two looks at what a device has written. A look waits for the device."""
_MOST_BATCHES = 12
"""Captured steps that are kept, of the layouts used last."""
ROOM, ROOM_ON_CPU = 256, 128
"""Tokens that each row has room for at first, after its prompt; more room is made when needed."""


class StaticWriter:
    """Writes replies by static batches of one model, and keeps its memory and its captured steps.

    `captures`: replay steps as CUDA graphs; by default on a CUDA device, unless the model has experts, whose
    routing waits for the host.
    """

    def __init__(self, model: PreTrainedModel, *, cache_name: str, captures: bool | None = None) -> None:
        self._model = model
        self._cache_name = cache_name
        if captures is None:
            config = model.config.get_text_config()
            captures = _device(model).type == "cuda" and not getattr(config, "num_experts", None)
        self._captures = Captures(_device(model)) if captures else None
        self._store = KeyValueStore()
        self._batches: OrderedDict[Hashable, StaticBatch] = OrderedDict()

    def write(
        self,
        start: RowsSoFar,
        replies: Replies,
        sampler: TokenSampler,
        key: Hashable,
        limit: int,
        between: Between = lambda is_open: None,
    ) -> None:
        """Continue rows whose first token is already among `replies`, until all have ended or have `limit`
        tokens. `key`: what `sampler` does, for captured steps to be used again. `between` is called between
        two steps, with the number of replies that continue, and may return more rows to write with them. The
        model's GPU has to be the current one."""
        at_once = 1 if self._captures is None else _AT_ONCE
        rows = {row: row for row in range(len(start.of)) if replies.is_open(row)}
        if not rows:
            return
        batch = self._laid_out([(start, rows)], replies, sampler, key, limit)
        last = max(map(replies.left, rows))  # steps of this batch, at most
        unread: _Chunk | None = None
        while True:
            chunk = None
            if steps := min(at_once, batch.left, last - batch.steps):
                for _ in range(steps):
                    batch.step()
                chunk = _Chunk(batch, steps)
            if self._captures is None:
                unread, chunk = chunk, None
            # The host reads what the device wrote before, while the device writes on.
            if unread is not None:
                unread.read_into(replies)
            unread = chunk
            replies.give_up()
            batch.keep(replies.is_open)
            more = between(len(batch.slots))
            numbers = range(replies.count - (len(more.of) if more else 0), replies.count)
            added = {number: row for row, number in enumerate(numbers) if replies.is_open(number)}
            if not batch.slots and not added:
                return
            if more and added:
                if batch.left and batch.admit(more, added):
                    last = max([last, *(batch.steps + replies.left(number) for number in added)])
                    continue
            elif batch.left and not self._is_thin(batch):
                continue
            if unread is not None:
                unread.read_into(replies)
                unread = None
                batch.keep(replies.is_open)
            parts = [(batch.so_far(), batch.slots), *([(more, added)] if more else [])]
            if not any(rows for _, rows in parts):
                return
            batch = self._laid_out(parts, replies, sampler, key, limit)
            last = max(map(replies.left, batch.slots))

    @property
    def kept_bytes(self) -> int:
        """Memory that is kept for the keys and values of the next replies."""
        return self._store.nbytes

    def release(self) -> None:
        """Free the keys and values, and the captured steps."""
        self._batches.clear()
        self._store.release()

    def _is_thin(self, batch: StaticBatch) -> bool:
        """Whether so few rows continue that the others are worth dropping, which copies the keys and values:
        not for as few as may join again at once."""
        of, rows = batch.prompts, batch.layout.rows
        if self._captures is not None:
            return len(of) <= rows * 3 // 8 and _coarse_rows(of)[0] < rows
        return len(of) <= rows * 3 // 4

    def _laid_out(
        self,
        parts: Sequence[tuple[RowsSoFar, Mapping[int, int]]],
        replies: Replies,
        sampler: TokenSampler,
        key: Hashable,
        limit: int,
    ) -> StaticBatch:
        """A batch with these rows, by the numbers of their replies."""
        parts = [part for part in parts if part[1]]
        for so_far, rows in parts:
            so_far.leave_out_padding(list(rows.values()))
        own = max(so_far.own_tokens for so_far, _ in parts)
        left = max(replies.left(number) for _, rows in parts for number in rows)
        layout = self._layout(parts, own, left, limit)
        if self._captures is None:
            # Nothing is captured, so that memory may be as large as it must.
            batch = self._batch(layout, KeyValueStore(), sampler)
        else:
            name = (layout, key, _addresses(self._model))
            if name not in self._batches:
                self._batches[name] = self._batch(layout, self._store, sampler)
            self._batches.move_to_end(name)
            batch = self._batches[name]
            if len(self._batches) > _MOST_BATCHES:
                self._batches.popitem(last=False)
        for each in self._batches.values():
            each.rest()
        batch.clear(own)
        for so_far, rows in parts:
            is_admitted = batch.admit(so_far, rows)
            assert is_admitted
        return batch

    def _batch(self, layout: Layout, store: KeyValueStore, sampler: TokenSampler) -> StaticBatch:
        return StaticBatch(
            self._model, layout, store, sampler, cache_name=self._cache_name, captures=self._captures
        )

    def _layout(
        self, parts: Sequence[tuple[RowsSoFar, Mapping[int, int]]], own: int, left: int, limit: int
    ) -> Layout:
        of = [id(so_far.heads[so_far.of[row]]) for so_far, rows in parts for row in rows.values()]
        prompt_tokens = max(so_far.prompt_tokens for so_far, _ in parts)
        if self._captures is None:
            prompts, width = len(set(of)), max(map(of.count, of))
            return Layout(len(of), prompts, width, prompt_tokens, own + min(left, ROOM_ON_CPU), limit)
        # In coarse sizes, so that few steps are captured.
        coarse, prompts, width, regular = _coarse_rows(of)
        return Layout(
            coarse,
            prompts,
            width,
            _multiple(prompt_tokens, 256),
            min(_power(own + ROOM), _multiple(own + left, ROOM)),
            _multiple(limit, 256),
            regular,
        )


class _Chunk:
    """Tokens on their way from the device to the host."""

    def __init__(self, batch: StaticBatch, steps: int) -> None:
        """The last `steps` tokens of the batch."""
        self._rows, self._slots = list(batch.slots), list(batch.slots.values())
        columns = [(batch.steps - steps + step) % STEP_WINDOW for step in range(steps)]
        self._ids, self._logprobs = (
            _to_host(tensor[:, columns[0] : columns[-1] + 1])
            if columns[0] <= columns[-1]
            else _to_host(tensor[:, columns])
            for tensor in (batch.ids, batch.logprobs)
        )
        self._copied: Any = None
        if batch.ids.is_cuda:
            self._copied = torch.cuda.Event()
            self._copied.record()

    def read_into(self, replies: Replies) -> None:
        """Wait for the tokens and add them. Raises NonFiniteLogits."""
        if self._copied is not None:
            self._copied.synchronize()
        replies.add(self._rows, self._ids[self._slots].tolist(), self._logprobs[self._slots].tolist())


def _coarse_rows(of: Sequence[int]) -> tuple[int, int, int, bool]:
    """The rows, prompts, rows of a prompt and regularity of a layout for rows of these prompts."""
    counts = [of.count(prompt) for prompt in set(of)]
    rows, prompts, width = _power(len(of)), _power(len(counts)), _power(max(counts))
    # Empty places cost less than gathering, unless there are many.
    regular = prompts * width <= 2 * rows
    return (prompts * width if regular else rows), prompts, width, regular


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_cuda:
        return tensor
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor, non_blocking=True)


def rows_that_fit(memory: int, token_bytes: int, tokens: int) -> int:
    """How many replies of so many tokens a captured batch may have for its room to take at most `memory`
    bytes, if the prompts have equally many of them; with others it takes twice as much at most."""
    # Its own tokens begin with the end of its prompt.
    room = _multiple(tokens, ROOM) + ROOM
    rows = memory // (token_bytes * room)
    # Its layout has a power of two of them.
    return _power(rows + 1) // 2


def _power(number: int) -> int:
    """The least power of two that is not below it."""
    return 1 << max(number - 1, 0).bit_length()


def _multiple(number: int, of: int) -> int:
    """The least multiple that is not below it."""
    return -(-number // of) * of


def _device(model: PreTrainedModel) -> torch.device:
    embeddings: Any = model.get_input_embeddings()
    device: torch.device = embeddings.weight.device
    return device


def is_static(model: PreTrainedModel, cache: Cache) -> bool:
    """Whether replies that begin with this cache can be written by static batches: all layers are full
    attention, and all weights are on one device."""
    is_shared = isinstance(cache, SharedCache) or can_share(model, cache)
    return is_shared and is_on_one_device(model)


def is_on_one_device(model: PreTrainedModel) -> bool:
    """Whether all weights are on one device."""
    return len({weight.device for weight in model.parameters()}) == 1


def _addresses(model: PreTrainedModel) -> Hashable:
    """Where a step finds its weights, and which it uses: captured steps are valid for these alone."""
    core: Any = model.model
    text = core.language_model
    weights = tuple(weight.data_ptr() for weight in text.parameters())
    adapters = tuple(
        (module.disable_adapters, tuple(module.active_adapters), tuple(module.merged_adapters))
        for module in model.modules()
        if isinstance(module, BaseTunerLayer)
    )
    copies = tuple(
        copy.weight.data_ptr()
        for module in model.modules()
        if isinstance(copy := module.__dict__.get("forward"), MergedWeight)
    )
    autocast = (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda"))
    return hash((weights, adapters, copies, autocast, text.training))
