"""Runs a Qwen vision-language model: batches, positions, caches, sampling.

Positions are computed here and passed to the model, which would otherwise reuse those of its last call.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import Cache, PreTrainedModel

from videopro.backbones.base import Sampling
from videopro.backbones.qwen.caches import (
    REPLACEABLE,
    PromptHead,
    SharedCache,
    attending,
    can_share,
    join_heads,
    make_growing,
)
from videopro.backbones.qwen.features import grids, visual_inputs
from videopro.backbones.qwen.inputs import EncodedPrompt
from videopro.backbones.qwen.replies import Replies, SampledReply, TokenSampler, uniforms
from videopro.backbones.qwen.static_batch import RowsSoFar
from videopro.backbones.qwen.writing import StaticWriter, is_on_one_device, is_static


@dataclass
class DecodingState:
    """A batch between two forward passes. Rows are padded on the left."""

    cache: Cache
    mask: torch.Tensor  # (rows, tokens so far), 1 for a token and 0 for padding
    deltas: torch.Tensor  # (rows, 1), M-RoPE: offset from a token's index in the row to its position
    logits: torch.Tensor  # (rows, vocabulary), float32, for the next token
    heads: tuple[object, ...] = ()  # what each shared prompt was made from, if it may be shared with others


Arrivals = tuple[DecodingState, Sequence[tuple[int | None, int]]]
"""Rows to write with others, and their seeds."""


class QwenRunner:
    """Forward passes of one model. `ends` are the token ids that end a reply; `pad` pads shorter rows."""

    def __init__(self, model: PreTrainedModel, *, ends: Sequence[int], pad: int) -> None:
        self.model = model
        self._ends = frozenset(ends)
        self._pad = pad
        # transformers 5.24 calls the cache so; the former name is deprecated there and unknown later.
        has_new_name = "cache" in inspect.signature(type(model).forward).parameters
        self._cache = "cache" if has_new_name else "past_key_values"
        config = model.config.get_text_config()
        layers = set(config.to_dict().get("layer_types") or ())
        self.is_recurrent = bool(layers - {"full_attention", "sliding_attention"})
        """Whether some layers carry a recurrent state, which padding between tokens would change."""
        self.can_join = layers <= {"full_attention"} and config._attn_implementation in REPLACEABLE
        """Whether replies after different heads can be written together."""
        self._static: StaticWriter | None = None

    @property
    def device(self) -> torch.device:
        """The device for inputs."""
        embeddings: Any = self.model.get_input_embeddings()
        device: torch.device = embeddings.weight.device
        return device

    @property
    def takes_arrivals(self) -> bool:
        """Whether rows can be added to a batch while it is written."""
        return self.can_join and is_on_one_device(self.model)

    @property
    def kept_bytes(self) -> int:
        """Memory that is kept for the next replies and theirs to use."""
        return 0 if self._static is None else self._static.kept_bytes

    @property
    def token_bytes(self) -> int:
        """Memory of a token's keys and values, in bytes."""
        config = self.model.config.get_text_config()
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        heads = config.num_key_value_heads
        item: int = torch.empty(0, dtype=self.model.dtype).element_size()
        return int(2 * config.num_hidden_layers * heads * size * item)

    def pass_bytes(self, tokens: int, before: int = 0) -> int:
        """About what a row takes at most in a pass over so many tokens, in bytes: a layer's states, and after
        a shared head of `before` tokens a copy of the head and all scores."""
        config = self.model.config.get_text_config()
        item = torch.empty(0, dtype=self.model.dtype).element_size()
        states = item * (3 * config.intermediate_size + 6 * config.hidden_size)
        scores = config.num_attention_heads * (4 + 2 * item)
        return int(tokens * (states + before * scores) + before * self.token_bytes)

    # Forward passes

    def last_logits(self, rows: Sequence[EncodedPrompt]) -> torch.Tensor:
        """Logits of the token after each row, (rows, vocabulary) float32, from one forward pass."""
        # Only the last logits: those of a long prompt over a large vocabulary take gigabytes.
        out = self.model(**self._batch(rows, self._positions(rows)), use_cache=False, logits_to_keep=1)
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits.to(self.device)

    def share(self, head: EncodedPrompt) -> PromptHead:
        """Run a head once and keep what its tails need."""
        positions, next_position = self.positions(head)
        batch = self._batch([head], positions)
        out = self.model(**batch, use_cache=True, logits_to_keep=1)
        return PromptHead(out[self._cache], len(head.ids), next_position)

    def positions(self, head: EncodedPrompt) -> tuple[torch.Tensor, int]:
        """M-RoPE positions of a head, (3, 1, tokens), and the position of a text token after it."""
        # The model's own rule is applied to the head with one text token appended.
        longer = replace(head, ids=(*head.ids, self._pad), types=(*head.types, 0))
        positions = self._positions([longer])
        return positions[..., :-1], int(positions[0, 0, -1])

    def last_logits_after(self, shared: PromptHead, tails: Sequence[EncodedPrompt]) -> torch.Tensor:
        """Logits of the token after each tail of a shared head, (rows, vocabulary) float32, from one forward
        pass.

        Tails are padded on the right, after every real token.
        """
        width = max(len(tail.ids) for tail in tails)
        ids = self._tensor([[*tail.ids, *[self._pad] * (width - len(tail.ids))] for tail in tails])
        mask = self._tensor([[1] * len(tail.ids) + [0] * (width - len(tail.ids)) for tail in tails])
        # On the CPU, whose indices every device takes: the model may be spread, its head on another than ids.
        last = torch.tensor([len(tail.ids) - 1 for tail in tails])
        keep = last.unique()
        # Logits at each index where a row ends; each row then selects its own.
        logits = self._continue([shared] * len(tails), ids, mask, keep=keep).logits
        return logits[torch.arange(len(tails)), torch.searchsorted(keep, last)]

    def start(self, rows: Sequence[EncodedPrompt]) -> DecodingState:
        """Run prompts, to generate replies to them."""
        positions = self._positions(rows)
        batch = self._batch(rows, positions)
        out = self.model(**batch, use_cache=True, logits_to_keep=1)
        logits = out.logits[:, -1].float().to(self.device)
        mask = batch["attention_mask"]
        # The reply continues from the last token's position, as in one pass over prompt and reply. The deltas
        # of get_rope_index continue from the highest position, which differs for a long Qwen2.5-VL video.
        deltas = positions[0, :, -1:] + 1 - mask.sum(-1, keepdim=True)
        return DecodingState(out[self._cache], mask, deltas, logits)

    def fork(self, state: DecodingState, rows: Sequence[int]) -> DecodingState:
        """A batch with these rows of `state`, each as often as it is listed. `state` cannot be used again."""
        index = self._tensor([list(rows)])[0]
        cache = state.cache
        # Sharing pays only where rows multiply; otherwise the cache is reordered in place.
        if len(rows) > len(state.mask) and can_share(self.model, cache):
            cache = SharedCache(cache, index)
        else:
            cache.reorder_cache(index)  # type: ignore[arg-type]
        return DecodingState(cache, state.mask[index], state.deltas[index], state.logits[index])

    def start_after(self, heads: Sequence[PromptHead], tails: Sequence[EncodedPrompt]) -> DecodingState:
        """Run tails, each after its head, to generate replies to them. All heads must be the same one, unless
        each can be joined (`can_join`). With a recurrent model, all tails must have the same length."""
        mask = self._mask(tails)
        ids = self._left([tail.ids for tail in tails], self._pad)
        state = self._continue(heads, ids, mask, keep=1)
        return replace(state, logits=state.logits[:, -1])

    def _continue(
        self,
        heads: Sequence[PromptHead],
        ids: torch.Tensor,
        mask: torch.Tensor,
        *,
        keep: int | torch.Tensor,
    ) -> DecodingState:
        """The state after these tokens, with the logits of all that are to be kept."""
        rows, width = ids.shape
        joined = join_heads(heads, ids.device)
        if can_share(self.model, joined.cache):
            cache: Cache = SharedCache(joined.cache, joined.of)
        else:
            # A copy, because the pass appends to it and recurrent layers cannot be cropped back.
            cache = copy.deepcopy(joined.cache)
            if rows > 1:
                cache.reorder_cache(joined.of)  # type: ignore[arg-type]
        full_mask = torch.cat([joined.mask, mask], dim=1)
        with attending(self.model, cache):
            out = self.model(
                input_ids=ids,
                attention_mask=full_mask,
                position_ids=_text_positions(full_mask, joined.deltas)[..., -width:],
                **{self._cache: cache},
                use_cache=True,
                logits_to_keep=keep,
            )
        logits = out.logits.float().to(self.device)
        return DecodingState(out[self._cache], full_mask, joined.deltas, logits, joined.heads)

    def _step(self, state: DecodingState, tokens: torch.Tensor) -> DecodingState:
        mask = torch.cat([state.mask, state.mask.new_ones(len(tokens), 1)], dim=1)
        with attending(self.model, state.cache):
            out = self.model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=_text_positions(mask, state.deltas)[..., -1:],
                **{self._cache: state.cache},
                use_cache=True,
                logits_to_keep=1,
            )
        logits = out.logits[:, -1].float().to(self.device)
        return replace(state, cache=out[self._cache], mask=mask, logits=logits)

    # Batches

    def _tensor(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.device)

    def _left(self, rows: Sequence[Sequence[int]], fill: int) -> torch.Tensor:
        width = max(map(len, rows))
        return self._tensor([[*[fill] * (width - len(row)), *row] for row in rows])

    def _mask(self, rows: Sequence[EncodedPrompt]) -> torch.Tensor:
        width = max(len(row.ids) for row in rows)
        return self._tensor([[0] * (width - len(row.ids)) + [1] * len(row.ids) for row in rows])

    def _positions(self, rows: Sequence[EncodedPrompt]) -> torch.Tensor:
        """M-RoPE positions from the model's own rule, (3, rows, tokens), for rows padded on the left."""
        extra = grids(rows, self.device)
        intervals = [seconds for row in rows for seconds in row.intervals]
        if intervals:
            extra["second_per_grid_ts"] = torch.tensor(intervals, device=self.device)
        ids = self._left([row.ids for row in rows], self._pad)
        types = self._left([row.types for row in rows], 0)
        core: Any = self.model.model
        positions: torch.Tensor = core.get_rope_index(ids, types, attention_mask=self._mask(rows), **extra)[0]
        return positions

    def _batch(self, rows: Sequence[EncodedPrompt], positions: torch.Tensor) -> dict[str, torch.Tensor]:
        """The model's inputs for rows padded on the left."""
        mask = self._mask(rows)
        return {
            "input_ids": self._left([row.ids for row in rows], self._pad),
            "mm_token_type_ids": self._left([row.types for row in rows], 0),
            "attention_mask": mask,
            "position_ids": torch.cat([_token_indices(mask)[None], positions]),
            **visual_inputs(rows, self.device),
        }

    # Generation

    def generate(
        self,
        state: DecodingState,
        sampling: Sampling,
        seeds: Sequence[tuple[int | None, int]],
        *,
        banned: Sequence[int],
        on_reply: Callable[[int, SampledReply], None],
        between: Callable[[int], Arrivals | None] = lambda is_open: None,
        cancelled: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Generate a reply for each row of `state`.

        `seeds` has a seed and a number for each row, which together seed its sampling; `banned` are token ids
        that are never generated; `on_reply` is called with each row's reply as soon as it is complete, while
        others are still being generated; `between` is called between two steps with the number of rows that
        continue, may run other passes of the model, and may return more rows, if all can be joined
        (`can_join`): their replies follow the others'; `cancelled` gives the rows whose replies need not be
        written on, whose `on_reply` is not called. Log-probabilities are those of the model's own
        distribution, before temperature, top-p and banned tokens. Raises NonFiniteLogits.
        """
        sampler = TokenSampler(sampling, self._mark(banned, state.logits.shape[-1]))
        limit = sampling.max_new_tokens
        numbers = uniforms(seeds, limit).to(self.device)
        replies = Replies(len(seeds), self._ends, limit, on_reply, cancelled)
        tokens, logprobs = sampler(state.logits, numbers[:, 0])
        replies.add(range(len(seeds)), tokens[:, None].tolist(), logprobs[:, None].tolist())
        if is_static(self.model, state.cache):
            key = (sampling.temperature, sampling.top_p, tuple(banned))

            def arrived(is_open: int) -> RowsSoFar | None:
                if (arrivals := between(is_open)) is None:
                    return None
                more, more_seeds = arrivals
                numbers = uniforms(more_seeds, limit).to(self.device)
                tokens, logprobs = sampler(more.logits, numbers[:, 0])
                added = replies.extend(len(more_seeds))
                replies.add(added, tokens[:, None].tolist(), logprobs[:, None].tolist())
                return self._so_far(more, tokens, numbers)

            start = self._so_far(state, tokens, numbers)
            # Graphs, streams and events are of the current GPU, which in a new thread is the first.
            with torch.cuda.device_of(tokens):
                self._writer().write(start, replies, sampler, key, limit, arrived)
        else:
            self._write_by_passes(state, tokens, numbers, replies, sampler, between)

    def _write_by_passes(
        self,
        state: DecodingState,
        tokens: torch.Tensor,
        numbers: torch.Tensor,
        replies: Replies,
        sampler: TokenSampler,
        between: Callable[[int], Arrivals | None],
    ) -> None:
        """A forward pass of the library for each token."""
        make_growing(state.cache)
        batch = list(range(len(tokens)))  # the reply that each row of the state belongs to
        for step in range(1, numbers.shape[1]):
            replies.give_up()
            rows = [row for row, number in enumerate(batch) if replies.is_open(number)]
            if not rows:
                break
            if len(rows) <= len(batch) * 7 // 8:
                # Finished replies need no more passes; dropping them copies the cache of the others, so it is
                # done only for an eighth of the batch or more.
                state, tokens, numbers = self.fork(state, rows), tokens[rows], numbers[rows]
                batch = [batch[row] for row in rows]
            more = between(len(rows))
            assert more is None, "rows of this model cannot be joined"
            state = self._step(state, tokens)
            tokens, logprobs = sampler(state.logits, numbers[:, step])
            replies.add(batch, tokens[:, None].tolist(), logprobs[:, None].tolist())

    def _mark(self, banned: Sequence[int], vocabulary: int) -> torch.Tensor | None:
        """(vocabulary,), true for the token ids that are banned."""
        if not banned:
            return None
        marks = torch.zeros(vocabulary, dtype=torch.bool)
        marks[list(banned)] = True
        return marks.to(self.device)

    def _so_far(self, state: DecodingState, tokens: torch.Tensor, numbers: torch.Tensor) -> RowsSoFar:
        """The rows of a state and their first tokens, for static batches to continue. The state cannot be
        used again."""
        cache = state.cache
        layers: list[Any] = cache.layers
        # No pass continues the state: what it holds is freed layer by layer while it is written elsewhere.
        cache.layers = []
        if isinstance(cache, SharedCache):
            prompts = [(layer.prompt_keys, layer.prompt_values) for layer in layers]
            continuations = [(layer.keys, layer.values) for layer in layers]
            of = layers[0].rows.of.tolist()
        else:
            prompts = [(layer.keys, layer.values) for layer in layers]
            continuations = [(keys[:, :, :0], values[:, :, :0]) for keys, values in prompts]
            of = list(range(len(tokens)))
        mask = state.mask.bool()
        index = mask.sum(-1, keepdim=True)
        positions = torch.stack([index, *[index + state.deltas] * 3])
        heads = list(state.heads) or [object() for _ in range(len(prompts[0][0]))]
        return RowsSoFar(
            prompts, continuations, of, mask, positions, tokens, numbers, torch.ones_like(tokens), heads
        )

    def release(self) -> None:
        """Free what is kept for the next replies: room for keys and values, and captured steps."""
        if self._static is not None:
            self._static.release()

    def _writer(self) -> StaticWriter:
        if self._static is None:
            self._static = StaticWriter(self.model, cache_name=self._cache)
        return self._static


def _token_indices(mask: torch.Tensor) -> torch.Tensor:
    """Each token's index in its row, padding not counted; (rows, tokens)."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def _text_positions(mask: torch.Tensor, deltas: torch.Tensor) -> torch.Tensor:
    """Positions of text tokens, (4, rows, tokens): index, then the position in time, height and width."""
    indices = _token_indices(mask)
    return torch.cat([indices[None], (indices + deltas)[None].expand(3, -1, -1)])
