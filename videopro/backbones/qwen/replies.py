"""Replies while they are written: how their tokens are drawn, when each ends, and which requests wait.

Each row of a batch draws with its own random numbers. The numbers are drawn before a reply begins, from a
generator that only the reply's seed decides; a token is then the inverse of the cumulative distribution at
its number. One batch of kernels serves all rows, and none of them waits for the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from videopro.backbones.base import GenerateRequest, Generation, Joining, Sampling
from videopro.backbones.qwen.caches import PromptHead
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
        self.written = [SampledReply([], []) for _ in range(count)]
        self._ends = ends
        self._limit = limit
        self._on_reply = on_reply
        self._cancelled = cancelled
        self._given_up: frozenset[int] = frozenset()

    def left(self, number: int) -> int:
        """The most tokens that a reply may still get."""
        return self._limit - len(self.written[number].ids)

    @property
    def count(self) -> int:
        """All replies, those that have ended included."""
        return len(self.written)

    def extend(self, count: int) -> range:
        """Make room for more replies; returns their numbers."""
        self.written += [SampledReply([], []) for _ in range(count)]
        return range(self.count - count, self.count)

    def is_open(self, number: int) -> bool:
        """Whether a reply continues."""
        reply = self.written[number]
        return not reply.ended and len(reply.ids) < self._limit and number not in self._given_up

    def give_up(self) -> None:
        """End cancelled replies where they are."""
        self._given_up = frozenset(self._cancelled())

    def add(
        self, numbers: Sequence[int], tokens: Sequence[Sequence[int]], logprobs: Sequence[Sequence[float]]
    ) -> None:
        """Add tokens to the replies of these numbers, (replies, tokens); those after its end do not count.
        Raises NonFiniteLogits."""
        parts = list(zip(numbers, tokens, logprobs, strict=True))
        non_finite = [
            number for number, ids, scores in parts if self.is_open(number) and self._has_nan(ids, scores)
        ]
        if non_finite:
            raise NonFiniteLogits(non_finite)
        for number, ids, scores in parts:
            if self.is_open(number):
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
                self.written[number] = replace(reply, end=(token, score))
                break
            reply.ids.append(token)
            reply.logprobs.append(score)
            if len(reply.ids) == self._limit:
                break
        if not self.is_open(number):
            self._on_reply(number, self.written[number])


# ---- what waits -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueuedReply:
    """A request, its number among all, and the head of its prompt if it can be written with other heads."""

    number: int
    request: GenerateRequest
    head: PromptHead | None


class ReplyQueue:
    """Requests that wait. `head_of`: the head of a request that can join others, else None."""

    def __init__(self, joining: Joining, head_of: Callable[[GenerateRequest], PromptHead | None]) -> None:
        self.joining = joining
        self.apart: list[QueuedReply] = []
        """Those that are written in separate batches."""
        self._joinable: list[QueuedReply] = []
        self._head_of = head_of
        self._added = 0

    def __bool__(self) -> bool:
        return bool(self.apart or self._joinable)

    @property
    def joinable(self) -> int:
        """Requests that can join a batch while it is written."""
        return len(self._joinable)

    def add(self, requests: Sequence[GenerateRequest]) -> None:
        """Append requests. Raises BackboneError for a prefix that cannot be used."""
        queued = [
            QueuedReply(number, request, self._head_of(request))
            for number, request in enumerate(requests, start=self._added)
        ]
        self._added += len(queued)
        for one in queued:
            (self.apart if one.head is None else self._joinable).append(one)

    def let_join(self, room: int) -> None:
        """Serve what takes a single pass, and append what may join, at most `room` requests; leave out what
        was cancelled meanwhile."""
        self.joining.pause()
        self.leave_out()
        if room > self.joinable:
            self.add(self.joining.take(room - self.joinable))

    def leave_out(self) -> None:
        """Remove cancelled requests."""
        if cancelled := frozenset(self.joining.cancelled()):
            self._joinable = [one for one in self._joinable if one.number not in cancelled]
            self.apart = [one for one in self.apart if one.number not in cancelled]

    def cancelled_rows(self, rows: Sequence[QueuedReply]) -> list[int]:
        """The rows of a batch whose requests were cancelled."""
        cancelled = frozenset(self.joining.cancelled())
        return [row for row, one in enumerate(rows) if one.number in cancelled] if cancelled else []

    def next_joinable(self, room: int) -> list[QueuedReply]:
        """Remove and return the first requests that can join a batch, at most `room`."""
        chosen, self._joinable = self._joinable[:room], self._joinable[room:]
        return chosen

    def take_apart(self) -> list[QueuedReply]:
        """Remove and return all requests that are written in separate batches."""
        chosen, self.apart = self.apart, []
        return chosen


class Collected(Joining):
    """Collects the replies of a call that no request joins."""

    def __init__(self) -> None:
        self.replies: dict[int, Generation] = {}

    def pause(self) -> None:
        check_cancelled()

    def take(self, room: int) -> Sequence[GenerateRequest]:
        return ()

    def cancelled(self) -> Sequence[int]:
        # All or none: the call is one thread's, which `pause` ends.
        return ()

    def done(self, number: int, reply: Generation) -> None:
        self.replies[number] = reply
