"""Replies while they are written: how their tokens are drawn, and when each ends.

Each row of a batch draws with its own random numbers. The numbers are drawn before a reply begins, from a
generator that only the reply's seed decides; a token is then the inverse of the cumulative distribution at
its number. One batch of kernels serves all rows, and none of them waits for the host.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from videopro.backbones.base import Awaited, GenerateRequest, Generation, Joining, Sampling
from videopro.errors import BackboneError, check_cancelled

_AT_ONCE = 256
"""Numbers drawn at once: a reply's first numbers do not depend on how many it may need."""
_BELOW_ONE = 1 - 2**-40


def uniforms(seeds: Sequence[tuple[int | None, int]], tokens: int) -> torch.Tensor:
    """A random number in [0, 1) for each token of each row, (rows, tokens) float64, on the CPU: the same on
    every device. `seeds` has a seed and a number for each row; a seed of None draws others each time."""
    drawn = [_row(seed, number, tokens) for seed, number in seeds]
    return torch.stack(drawn).clamp_(max=_BELOW_ONE)


def _row(seed: int | None, number: int, tokens: int) -> torch.Tensor:
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        # SeedSequence mixes both numbers, so that neighbouring seeds and rows give unrelated draws. Shifted,
        # because torch takes 63 bits.
        mixed = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]
        generator.manual_seed(int(mixed >> 1))
    parts = [
        torch.rand(_AT_ONCE, generator=generator, dtype=torch.float64) for _ in range(0, tokens, _AT_ONCE)
    ]
    return torch.cat(parts)[:tokens]


class TokenSampler:
    """Chooses tokens as `sampling` says; `banned`, (vocabulary,) bool, marks token ids that are never
    chosen."""

    def __init__(self, sampling: Sampling, banned: torch.Tensor | None) -> None:
        self.draws = sampling.temperature > 0
        """Whether tokens are drawn; else the most probable one is taken."""
        self._banned = banned
        self._warpers = LogitsProcessorList()
        if self.draws:
            self._warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
            if sampling.top_p < 1:
                self._warpers.append(TopPLogitsWarper(sampling.top_p))

    def __call__(self, logits: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens, (rows,), and their log-probabilities before temperature, top-p and banned tokens, (rows,).

        `logits`: (rows, vocabulary) float32; `numbers`: (rows,), from `uniforms`. The log-probability of a
        row with a NaN is NaN.
        """
        warped = logits if self._banned is None else logits.masked_fill(self._banned, -torch.inf)
        no_ids: torch.LongTensor = None  # type: ignore[assignment]  # None of the warpers uses earlier tokens.
        warped = self._warpers(no_ids, warped)
        tokens = _draw(warped, numbers) if self.draws else warped.argmax(-1)
        return tokens, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]


def _draw(logits: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Invert each row's cumulative distribution at its number."""
    # In double precision: the sum over a large vocabulary would lose rare tokens in single.
    cumulative = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
    at = (numbers * cumulative[:, -1])[:, None]
    tokens = torch.searchsorted(cumulative, at, right=True)[:, 0]
    # A row of NaN finds no place; its log-probability shows it.
    return tokens.clamp(max=logits.shape[-1] - 1)


# ---- a batch of replies -----------------------------------------------------------------------------------

OnReply = Callable[[int, "SampledReply"], None]


class NonFiniteLogits(BackboneError):
    """A model's output is NaN for these `rows` of the batch."""

    def __init__(self, rows: Sequence[int]) -> None:
        super().__init__(
            "the model's logits are NaN: its weights or adapter are damaged, or its dtype is too narrow; "
            "load them again, or use dtype 'fp32'"
        )
        self.rows = tuple(rows)


@dataclass(frozen=True)
class SampledReply:
    """One reply: token ids and natural log-probabilities, without the token that ended it."""

    ids: list[int]
    logprobs: list[float]
    end: tuple[int, float] | None = None
    """The token that ended it and its log-probability; None if the length limit ended it."""

    @property
    def ended(self) -> bool:
        """Whether the model ended it with an end token."""
        return self.end is not None


class Replies:
    """The replies of a batch while they are written. `ends`: the token ids that end one; `cancelled`: the
    numbers of those for which nobody waits any more, at the time."""

    def __init__(
        self,
        count: int,
        ends: frozenset[int],
        limit: int,
        on_reply: OnReply,
        cancelled: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.written: dict[int, SampledReply] = {}
        """Those that continue, by their numbers."""
        self.count = 0
        """All, those that have ended included."""
        self._ends = ends
        self._limit = limit
        self._on_reply = on_reply
        self._cancelled = cancelled
        self.extend(count)

    def left(self, number: int) -> int:
        """The most tokens that a reply may still get."""
        return self._limit - len(self.written[number].ids)

    def extend(self, count: int) -> range:
        """Begin more replies; returns their numbers."""
        added = range(self.count, self.count + count)
        self.written |= {number: SampledReply([], []) for number in added}
        self.count += count
        return added

    def is_open(self, number: int) -> bool:
        """Whether a reply continues."""
        return number in self.written

    def give_up(self) -> None:
        """End cancelled replies where they are."""
        for number in self._cancelled():
            self.written.pop(number, None)

    def add(
        self, numbers: Sequence[int], tokens: Sequence[Sequence[int]], logprobs: Sequence[Sequence[float]]
    ) -> None:
        """Add tokens to the replies of these numbers, (replies, tokens); those after its end do not count.
        Raises NonFiniteLogits."""
        parts = [part for part in zip(numbers, tokens, logprobs, strict=True) if self.is_open(part[0])]
        if non_finite := [number for number, ids, scores in parts if self._has_nan(ids, scores)]:
            raise NonFiniteLogits(non_finite)
        for number, ids, scores in parts:
            self._extend(number, ids, scores)

    def _has_nan(self, ids: Sequence[int], scores: Sequence[float]) -> bool:
        """Whether a NaN comes before the reply's end."""
        for token, score in zip(ids, scores, strict=True):
            if math.isnan(score):
                return True
            if token in self._ends:
                return False
        return False

    def _extend(self, number: int, ids: Sequence[int], scores: Sequence[float]) -> None:
        reply = self.written[number]
        for token, score in zip(ids, scores, strict=True):
            if token in self._ends:
                reply = replace(reply, end=(token, score))
                break
            reply.ids.append(token)
            reply.logprobs.append(score)
            if len(reply.ids) == self._limit:
                break
        else:
            return
        del self.written[number]
        self._on_reply(number, reply)


class Collected(Joining):
    """Collects the replies to the requests of a call that no others join."""

    def __init__(self, requests: Sequence[GenerateRequest]) -> None:
        self.replies: dict[int, Generation] = {}
        self._left = deque(
            Awaited(request, number, partial(self.replies.__setitem__, number), self._raise)
            for number, request in enumerate(requests)
        )

    def pause(self) -> None:
        # All or none are cancelled: the call is one thread's.
        check_cancelled()

    def take(self, room: int) -> list[Awaited]:
        return [self._left.popleft() for _ in range(min(room, len(self._left)))]

    def _raise(self, error: Exception) -> None:
        raise error
