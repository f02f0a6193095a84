"""A batch of replies that are written together, a token of each in a step that never waits for the host.

All that a step reads and writes stays at its place on the device: keys and values (`caches`), the
tokens, their positions, what is visible to each row, and where the next token goes. A step is therefore the
same work each time. On a CUDA device it is captured once as a graph and replayed, which spares Python the
thousands of kernels of a large model; elsewhere the same code runs step by step.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from videopro.backbones.qwen.caches import (
    KeyValueStore,
    PromptRows,
    StaticCache,
    StaticLayer,
    attending,
)
from videopro.backbones.qwen.layers import fused_norms
from videopro.backbones.qwen.replies import TokenSampler

_one_at_a_time = threading.Lock()
"""torch captures one graph at a time in a process. Two threads write replies where a policy is sampled while
its base answers programs."""


class Captures:
    """Captured steps of a model on `device`, which share the memory of their intermediate values. The device
    has to be the current one of a thread that uses them. Made where the stream is current on which the steps
    are replayed."""

    def __init__(self, device: torch.device) -> None:
        # torch's own stream for captures is on the GPU that was current when it was first needed. A graph's
        # kernels keep the priority with which they were captured, wherever it is replayed.
        priority = torch.cuda.current_stream(device).priority
        self._stream: Any = torch.cuda.Stream(device, priority=priority)
        self._alive: weakref.WeakSet[Any] = weakref.WeakSet()
        self._pool: Any = None

    def warm_up(self, step: Callable[[], None]) -> None:
        """Run a step as it will be captured: libraries allocate what they need in the first."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream), _without_autocast_cache():
            step()
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, step: Callable[[], None]) -> Any:
        """A graph of the step, which is not run."""
        graph = torch.cuda.CUDAGraph()
        with _one_at_a_time:
            if not self._alive:
                # With the last graph in it a pool is given up: torch takes its handle for no other graph.
                self._pool = torch.cuda.graph_pool_handle()
            with (
                # Other threads of this process decode videos and run other models meanwhile.
                torch.cuda.graph(
                    graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
                ),
                _without_autocast_cache(),
            ):
                step()
            self._alive.add(graph)
        return graph


@contextlib.contextmanager
def _without_autocast_cache() -> Iterator[None]:
    """Within, autocast keeps no casts: a captured step would read one that is gone when it is replayed."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


KeysValues = tuple[torch.Tensor, torch.Tensor]
STEP_WINDOW = 16
"""Steps whose tokens a batch keeps, for the host to read."""
_WARM_UP = 2
"""Steps before one is captured."""


@dataclass(frozen=True)
class Layout:
    """The sizes of a batch, which a captured step is made for."""

    rows: int
    prompts: int
    width: int
    """Room for rows of one prompt."""
    prompt_tokens: int
    room: int
    """Room for tokens of a row's own, those of its prompt's tail included."""
    tokens: int
    """The most tokens of a reply."""
    regular: bool = False
    """Whether the rows of each prompt lie together, `width` of them, so that attention to prompts needs no
    gathering."""


@dataclass
class RowsSoFar:
    """Rows between two steps, from whatever wrote them until then."""

    prompts: list[KeysValues]
    """Of each layer, (prompts, heads, prompt tokens, size)."""
    continuations: list[KeysValues]
    """Of each layer, (rows, heads, own tokens, size)."""
    of: list[int]
    """The prompt of each row."""
    mask: torch.Tensor
    """(rows, prompt tokens + own tokens), true for a token and false for padding."""
    positions: torch.Tensor
    """(4, rows, 1), of the next token: its index, and its position in time, height and width."""
    tokens: torch.Tensor
    """(rows,), the next token of each: sampled, but not read by the model yet."""
    uniforms: torch.Tensor
    """(rows, tokens of a reply), random numbers to draw with."""
    written: torch.Tensor
    """(rows,), tokens of each reply so far, the next one included."""
    heads: list[object]
    """What each prompt was made from: the same object for the same prompt."""

    @property
    def prompt_tokens(self) -> int:
        """The tokens of a prompt, padding included."""
        return self.prompts[0][0].shape[2]

    @property
    def own_tokens(self) -> int:
        """The tokens of a row after its prompt, padding included."""
        return self.continuations[0][0].shape[2]

    def leave_out_padding(self, rows: Sequence[int]) -> None:
        """Leave out the first tokens of prompts and of continuations that none of these rows sees: they are
        of rows that have ended."""
        parts = [self.prompt_tokens, self.own_tokens]
        seen = self.mask[rows].any(0).int().split(parts)
        firsts = [int(part.argmax()) if len(part) else 0 for part in seen]
        masks = zip(self.mask.split(parts, dim=1), firsts, strict=True)
        self.mask = torch.cat([mask[:, first:] for mask, first in masks], dim=1)
        for layers, first in zip((self.prompts, self.continuations), firsts, strict=True):
            layers[:] = [(keys[:, :, first:], values[:, :, first:]) for keys, values in layers]


class StaticBatch:
    """Rows of one layout. `captures`: replay the step as a CUDA graph of these; None: run it each time."""

    def __init__(
        self,
        model: PreTrainedModel,
        layout: Layout,
        store: KeyValueStore,
        sampler: TokenSampler,
        *,
        cache_name: str,
        captures: Captures | None,
    ) -> None:
        """`cache_name`: the model's name for its cache, which differs between transformers' versions."""
        core: Any = model.model
        self._cache_name = cache_name
        self._model = model
        self._text = core.language_model
        embed: Any = model.get_input_embeddings()
        self._embed = embed
        self._head: Any = model.get_output_embeddings()
        self.layout = layout
        self._store = store
        self._sampler = sampler
        self._captures = captures
        self._graph: Any = None
        self._warmed = 0
        device: torch.device = embed.weight.device
        rows = layout.rows

        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._slots, self._indices = zeros(layout.prompts, layout.width), zeros(rows)
        self._visible = zeros(rows, 1, 1, layout.prompt_tokens + layout.room, dtype=torch.bool)
        self._positions = zeros(4, rows, 1)
        self._index, self._column = zeros(1), zeros(1)
        self._tokens, self._written = zeros(rows, 1), zeros(rows, 1)
        self._uniforms = zeros(rows, layout.tokens, dtype=torch.float64)
        self.ids = zeros(rows, STEP_WINDOW)
        """(rows, STEP_WINDOW): the tokens of the last steps, those of step n at n modulo STEP_WINDOW."""
        self.logprobs = zeros(rows, STEP_WINDOW, dtype=torch.float32)
        """The same of their log-probabilities."""
        self._of: list[int] = []
        self.slots: dict[int, int] = {}
        """The slot of each row that continues, by the number of its reply."""
        self._heads: list[object] = []
        self._used = 0
        self.steps = 0
        """Steps since it was loaded, of which the device may still have to do some."""
        self._cache: StaticCache | None = None
        self._addresses = -1

    # Beginning

    def clear(self, own_tokens: int) -> None:
        """Begin anew, without rows. Those that are admitted before the first step may have so many tokens of
        their own. Slots without a row compute what means nothing."""
        layout = self.layout
        self.rest()
        self.slots, self._of = {}, [0] * layout.rows
        self._heads = [object() for _ in range(layout.prompts)]
        for tensor in (self._visible, self._positions, self._tokens, self._uniforms, self._written):
            tensor.zero_()
        self._used, self.steps = own_tokens, 0
        self._index.fill_(own_tokens)
        self._column.zero_()

    def admit(self, more: RowsSoFar, numbered: Mapping[int, int]) -> bool:
        """Write these rows of `more` into free slots, by the numbers of their replies; its keys and values
        are given up. Returns whether there is room for all; else nothing changes."""
        end, used = self.layout.prompt_tokens, self._used
        before, own = more.prompt_tokens, more.own_tokens
        if before > end or own > used or (places := self._places(more, numbered)) is None:
            return False
        new, free = places
        rows, slots, sources, targets = (
            torch.tensor(list(indices), dtype=torch.long, device=self._tokens.device)
            for indices in (numbered.values(), free, new, new.values())
        )
        layers = []
        for number in range(len(more.prompts)):
            # Copies, since they may lie where the new ones will. What they were taken from is given up: both
            # together may not fit.
            prompts = [tensor[sources] for tensor in more.prompts.pop(0)]
            continuations = [tensor[rows] for tensor in more.continuations.pop(0)]
            layer = self._layer(number, prompts[0], continuations[0])
            for target, source in zip((layer.prompt_keys, layer.prompt_values), prompts, strict=True):
                target[targets, :, end - before :] = source
            for target, source in zip((layer.keys, layer.values), continuations, strict=True):
                target[slots, :, used - own : used] = source
            layers.append(layer)
        if self._cache is None:
            self._cache = StaticCache(layers)
        self._visible[slots] = False
        self._visible[slots, 0, 0, end - before : end] = more.mask[rows, :before]
        self._visible[slots, 0, 0, end + used - own : end + used] = more.mask[rows, before:]
        self._positions[:, slots] = more.positions[:, rows]
        self._tokens[slots, 0] = more.tokens[rows]
        self._uniforms[slots, : more.uniforms.shape[1]] = more.uniforms[rows]
        self._written[slots, 0] = more.written[rows]
        self.slots |= zip(numbered, free, strict=True)
        self._assign()
        return True

    def _places(
        self, more: RowsSoFar, numbered: Mapping[int, int]
    ) -> tuple[dict[int, int], list[int]] | None:
        """Where there is room: a place for each prompt that is not here yet, and a slot for each row."""
        layout = self.layout
        of = {slot: self._of[slot] for slot in self.slots.values()}
        heads = {id(self._heads[place]): place for place in of.values()}
        new: dict[int, int] = {}
        slots: list[int] = []
        for row in numbered.values():
            prompt = more.of[row]
            head = more.heads[prompt]
            if id(head) not in heads:
                free = set(range(layout.prompts)).difference(heads.values())
                if not free:
                    return None
                new[prompt] = heads[id(head)] = min(free)
            place = heads[id(head)]
            first, count = (place * layout.width, layout.width) if layout.regular else (0, layout.rows)
            empty = [slot for slot in range(first, first + count) if slot not in of]
            if not empty or list(of.values()).count(place) == layout.width:
                return None
            of[empty[0]] = place
            slots.append(empty[0])
        for prompt, place in new.items():
            self._heads[place] = more.heads[prompt]
        self._of = [of.get(slot, 0) for slot in range(layout.rows)]
        return new, slots

    def _assign(self) -> None:
        """Let each row that continues attend to its prompt."""
        layout = self.layout
        if layout.regular:
            return
        by_prompt = [[0] * layout.width for _ in range(layout.prompts)]
        indices, seen = [0] * layout.rows, [0] * layout.prompts
        for slot in self.slots.values():
            place = self._of[slot]
            by_prompt[place][seen[place]] = slot
            indices[slot] = place * layout.width + seen[place]
            seen[place] += 1
        self._slots.copy_(torch.tensor(by_prompt))
        self._indices.copy_(torch.tensor(indices))

    def _layer(self, number: int, prompt: torch.Tensor, own: torch.Tensor) -> Any:
        """A layer, with room for keys and values like these if it has none yet."""
        if self._cache is not None:
            return self._cache.layers[number]
        layout = self.layout

        def room(kind: str, like: torch.Tensor, rows: int, tokens: int) -> KeysValues:
            shape = (rows, like.shape[1], tokens, like.shape[3])
            # What padding holds is masked, but a NaN in it would still spread.
            keys = self._store.take(f"{kind} keys", number, shape, like).zero_()
            return keys, self._store.take(f"{kind} values", number, shape, like).zero_()

        prompts = room("prompt", prompt, layout.prompts, layout.prompt_tokens)
        continuations = room("own", own, layout.rows, layout.room)
        if self._addresses != self._store.grown:
            # A captured step would write where nothing is any more.
            self._graph, self._warmed, self._addresses = None, 0, self._store.grown
        rows_of = PromptRows.placed(self._slots, self._indices, regular=layout.regular)
        return StaticLayer(prompts, continuations, rows_of, self._index)

    def rest(self) -> None:
        """Give up the keys and values until it is loaded again: the store may have others by then, and these
        would be kept in addition to them."""
        self._cache = None

    # Steps

    @property
    def left(self) -> int:
        """Steps for which there is room."""
        return self.layout.room - self._used

    @property
    def prompts(self) -> list[int]:
        """The prompt of each row that continues."""
        return [self._of[slot] for slot in self.slots.values()]

    def step(self) -> None:
        """Read the next token of each row, and choose the one after it."""
        if self._graph is not None:
            self._graph.replay()
        elif self._captures is None:
            self._forward()
        elif self._warmed < _WARM_UP:
            self._captures.warm_up(self._forward)
            self._warmed += 1
        else:
            self._graph = self._captures.capture(self._forward)
            self._graph.replay()
        self._used += 1
        self.steps += 1

    def _forward(self) -> None:
        layout, cache = self.layout, self._cache
        assert cache is not None
        # A captured step reads all the room, whatever of it is used: its kernels have one size.
        is_captured = self._captures is not None
        read = layout.room if is_captured else self._used + 1
        cache.read(read)
        self._visible.index_fill_(3, self._index + layout.prompt_tokens, True)
        with attending(self._model, cache), fused_norms(self._text, enabled=is_captured):
            out = self._text(
                inputs_embeds=self._embed(self._tokens),
                attention_mask=self._visible[..., : layout.prompt_tokens + read],
                position_ids=self._positions,
                **{self._cache_name: cache},
                use_cache=True,
            )
        logits = self._head(out.last_hidden_state[:, -1]).float()
        # Ended rows run past the numbers that they have.
        number = self._written.clamp(max=layout.tokens - 1)
        tokens, logprobs = self._sampler(logits, self._uniforms.gather(1, number)[:, 0])
        self.ids.index_copy_(1, self._column, tokens[:, None])
        self.logprobs.index_copy_(1, self._column, logprobs[:, None])
        self._tokens.copy_(tokens[:, None])
        for counter in (self._index, self._column, self._written, self._positions):
            counter.add_(1)
        self._column.remainder_(STEP_WINDOW)

    # Between steps

    def keep(self, is_open: Callable[[int], bool]) -> None:
        """Leave out the rows of replies that have ended; others may take their slots."""
        self.slots = {number: slot for number, slot in self.slots.items() if is_open(number)}
        used = set(self.prompts)
        # What a prompt was made from has its keys and values once more.
        self._heads = [head if place in used else object() for place, head in enumerate(self._heads)]

    def so_far(self) -> RowsSoFar:
        """What another layout begins with, its rows in their `slots`; valid until it is loaded."""
        assert self._cache is not None
        layout, used = self.layout, self._used
        layers: Sequence[Any] = self._cache.layers
        return RowsSoFar(
            prompts=[(layer.prompt_keys, layer.prompt_values) for layer in layers],
            continuations=[(layer.keys[:, :, :used], layer.values[:, :, :used]) for layer in layers],
            of=list(self._of),
            mask=self._visible[:, 0, 0, : layout.prompt_tokens + used],
            # Copies: it may be the same batch that begins with them.
            positions=self._positions.clone(),
            tokens=self._tokens[:, 0].clone(),
            uniforms=self._uniforms.clone(),
            written=self._written[:, 0].clone(),
            heads=list(self._heads),
        )
