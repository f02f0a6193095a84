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
from torch.nn.functional import pad
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
        seen = self.mask[rows].any(0).int().split([self.prompt_tokens, self.own_tokens])
        before, after = (int(part.argmax()) if len(part) else 0 for part in seen)
        masks = self.mask.split([self.prompt_tokens, self.own_tokens], dim=1)
        self.mask = torch.cat([masks[0][:, before:], masks[1][:, after:]], dim=1)
        self.prompts = [(keys[:, :, before:], values[:, :, before:]) for keys, values in self.prompts]
        self.continuations = [
            (keys[:, :, after:], values[:, :, after:]) for keys, values in self.continuations
        ]

    def followed_by(self, more: RowsSoFar) -> RowsSoFar:
        """These rows and `more` after them. All are padded on the left to one length."""
        before = max(self.prompt_tokens, more.prompt_tokens)
        after = max(self.own_tokens, more.own_tokens)
        numbers_of_added, added = self._number_prompts(more)
        prompts = [
            _stacked(one, (other[0][added], other[1][added]), before)
            for one, other in zip(self.prompts, more.prompts, strict=True)
        ]
        continuations = [
            _stacked(one, other, after)
            for one, other in zip(self.continuations, more.continuations, strict=True)
        ]
        masks = [
            torch.cat(
                [
                    _left(rows.mask[:, : rows.prompt_tokens], before),
                    _left(rows.mask[:, rows.prompt_tokens :], after),
                ],
                dim=1,
            )
            for rows in (self, more)
        ]
        numbers = max(self.uniforms.shape[1], more.uniforms.shape[1])
        uniforms = [pad(rows.uniforms, (0, numbers - rows.uniforms.shape[1])) for rows in (self, more)]
        return RowsSoFar(
            prompts,
            continuations,
            [*self.of, *(numbers_of_added[prompt] for prompt in more.of)],
            torch.cat(masks),
            torch.cat([self.positions, more.positions], dim=1),
            torch.cat([self.tokens, more.tokens]),
            torch.cat(uniforms),
            torch.cat([self.written, more.written]),
            [*self.heads, *(more.heads[prompt] for prompt in added)],
        )

    def _number_prompts(self, more: RowsSoFar) -> tuple[list[int], list[int]]:
        """The number of each prompt of `more` among all, and which of them are added."""
        number_of = {id(head): number for number, head in enumerate(self.heads)}
        numbers: list[int] = []
        added: list[int] = []
        for index, head in enumerate(more.heads):
            if id(head) in number_of:
                numbers.append(number_of[id(head)])
            else:
                numbers.append(len(self.heads) + len(added))
                added.append(index)
        return numbers, added


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

    def load(self, start: RowsSoFar, numbered: Mapping[int, int]) -> None:
        """Begin with these rows of `start`, by the numbers of their replies; its keys and values are given
        up. Rows of the layout beyond them repeat the first and mean nothing."""
        layout, device = self.layout, self._tokens.device
        before, own = start.prompt_tokens, start.own_tokens
        rows = list(numbered.values())
        prompts = sorted({start.of[row] for row in rows})
        of = [prompts.index(start.of[row]) for row in rows]
        self._heads = [start.heads[prompt] for prompt in prompts]
        self._heads += [object() for _ in range(layout.prompts - len(prompts))]
        slots = _grouped(of, layout.width) if layout.regular else range(len(rows))
        self.slots = dict(zip(numbered, slots, strict=True))
        padded, self._of = [rows[0]] * layout.rows, [of[0]] * layout.rows
        for slot, row, prompt in zip(slots, rows, of, strict=True):
            padded[slot], self._of[slot] = row, prompt
        chosen = torch.tensor(padded, device=device)
        self._assign()
        self._load_layers(start, torch.tensor(prompts, device=device), chosen)
        visible = start.mask[chosen]
        self._visible.zero_()
        end = layout.prompt_tokens + own
        self._visible[:, 0, 0, layout.prompt_tokens - before : end] = visible
        self._positions.copy_(start.positions[:, chosen])
        self._tokens.copy_(start.tokens[chosen][:, None])
        self._uniforms.zero_()
        self._uniforms[:, : start.uniforms.shape[1]] = start.uniforms[chosen]
        self._written.copy_(start.written[chosen][:, None])
        self._used, self.steps = own, 0
        self._index.fill_(self._used)
        self._column.zero_()

    def _assign(self) -> None:
        """Let each row that continues attend to its prompt."""
        layout = self.layout
        if layout.regular:
            return
        by_prompt = [[0] * layout.width for _ in range(layout.prompts)]
        indices, seen = [0] * layout.rows, [0] * layout.prompts
        for slot in self.slots.values():
            prompt = self._of[slot]
            by_prompt[prompt][seen[prompt]] = slot
            indices[slot] = prompt * layout.width + seen[prompt]
            seen[prompt] += 1
        self._slots.copy_(torch.tensor(by_prompt))
        self._indices.copy_(torch.tensor(indices))

    def _load_layers(self, start: RowsSoFar, prompts: torch.Tensor, chosen: torch.Tensor) -> None:
        layout, store = self.layout, self._store
        rows = PromptRows.placed(self._slots, self._indices, regular=layout.regular)
        layers = []
        for number in range(len(start.prompts)):
            # Copies, since they may lie where the new ones will. What they were taken from is given up: both
            # together may not fit.
            begun = [tensor[prompts] for tensor in start.prompts.pop(0)]
            continued = [tensor[chosen] for tensor in start.continuations.pop(0)]
            heads, size = begun[0].shape[1], begun[0].shape[3]
            shapes = {
                "prompt": (layout.prompts, heads, layout.prompt_tokens, size),
                "own": (layout.rows, heads, layout.room, size),
            }
            placed: dict[str, list[torch.Tensor]] = {}
            for kind, sources in (("prompt", begun), ("own", continued)):
                for name, source in zip(("keys", "values"), sources, strict=True):
                    target = store.take(f"{kind} {name}", number, shapes[kind], source)
                    # What padding holds is masked, but a NaN in it would still spread.
                    target.zero_()
                    if kind == "prompt":
                        target[: len(source), :, layout.prompt_tokens - source.shape[2] :] = source
                    else:
                        target[:, :, : source.shape[2]] = source
                    placed.setdefault(kind, []).append(target)
            (prompt_keys, prompt_values), (keys, values) = placed["prompt"], placed["own"]
            layers.append(StaticLayer((prompt_keys, prompt_values), (keys, values), rows, self._index))
        if self._addresses != store.grown:
            # A captured step would write where nothing is any more.
            self._graph, self._warmed, self._addresses = None, 0, store.grown
        self._cache = StaticCache(layers)

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

    def admit(self, more: RowsSoFar, numbered: Mapping[int, int]) -> bool:
        """Write these rows of `more` into slots that are free, by the numbers of their replies. Returns
        whether there are enough for all; else nothing changes."""
        layout, used = self.layout, self._used
        before, own = more.prompt_tokens, more.own_tokens
        if before > layout.prompt_tokens or own > used:
            return False
        taken = {slot: self._of[slot] for slot in self.slots.values()}
        heads = {id(self._heads[prompt]): prompt for prompt in taken.values()}
        new: dict[int, int] = {}  # the place of each prompt that is not here yet
        slots: list[int] = []
        for row in numbered.values():
            head = id(more.heads[more.of[row]])
            if head not in heads:
                free = set(range(layout.prompts)).difference(heads.values())
                if not free:
                    return False
                new[more.of[row]] = heads[head] = min(free)
            prompt = heads[head]
            first, count = (prompt * layout.width, layout.width) if layout.regular else (0, layout.rows)
            empty = [slot for slot in range(first, first + count) if slot not in taken]
            if not empty or list(taken.values()).count(prompt) == layout.width:
                return False
            taken[empty[0]] = prompt
            slots.append(empty[0])
        assert self._cache is not None
        rows, end = list(numbered.values()), layout.prompt_tokens
        places, sources = list(new.values()), list(new)
        layers: Sequence[Any] = self._cache.layers
        for layer, prompts, continuations in zip(layers, more.prompts, more.continuations, strict=True):
            for target, source in zip((layer.prompt_keys, layer.prompt_values), prompts, strict=True):
                target[places, :, end - before :] = source[sources]
            for target, source in zip((layer.keys, layer.values), continuations, strict=True):
                target[slots, :, used - own : used] = source[rows]
        self._visible[slots] = False
        self._visible[slots, 0, 0, end - before : end] = more.mask[rows, :before]
        self._visible[slots, 0, 0, end + used - own : end + used] = more.mask[rows, before:]
        self._positions[:, slots] = more.positions[:, rows]
        self._tokens[slots, 0] = more.tokens[rows]
        self._uniforms[slots, : more.uniforms.shape[1]] = more.uniforms[rows]
        self._written[slots, 0] = more.written[rows]
        for index, place in new.items():
            self._heads[place] = more.heads[index]
        self._of = [taken.get(slot, prompt) for slot, prompt in enumerate(self._of)]
        self.slots |= zip(numbered, slots, strict=True)
        self._assign()
        return True

    def so_far(self) -> RowsSoFar:
        """What another layout begins with, its rows in their `slots`; valid until it is loaded."""
        assert self._cache is not None
        layout, used = self.layout, self._used
        layers: Sequence[Any] = self._cache.layers
        count = len(self._heads)
        return RowsSoFar(
            prompts=[(layer.prompt_keys[:count], layer.prompt_values[:count]) for layer in layers],
            continuations=[(layer.keys[:, :, :used], layer.values[:, :, :used]) for layer in layers],
            of=list(self._of),
            mask=self._visible[:, 0, 0, : layout.prompt_tokens + used],
            positions=self._positions,
            tokens=self._tokens[:, 0],
            uniforms=self._uniforms,
            written=self._written[:, 0],
            heads=list(self._heads),
        )


def _grouped(of: Sequence[int], width: int) -> list[int]:
    """Slots in which the rows of each prompt lie together."""
    seen: dict[int, int] = {}
    slots = []
    for prompt in of:
        seen[prompt] = seen.get(prompt, -1) + 1
        slots.append(prompt * width + seen[prompt])
    return slots


def _left(mask: torch.Tensor, length: int) -> torch.Tensor:
    """(rows, tokens) with false before the tokens, up to `length` of them."""
    return pad(mask, (length - mask.shape[1], 0))


def _stacked(one: KeysValues, other: KeysValues, length: int) -> KeysValues:
    """Keys and values of both, padded on the left with zeros to `length` tokens."""
    keys, values = (
        torch.cat([pad(tensor, (0, 0, length - tensor.shape[2], 0)) for tensor in pair])
        for pair in zip(one, other, strict=True)
    )
    return keys, values
