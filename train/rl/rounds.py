"""A round of sampling, and rounds that an engine writes ahead: one-step off-policy training.

While one round is trained on, the engine writes the next, with the policy from the start of this one. The
loss is corrected for that by the importance ratio (`importance`), since each token comes with the
log-probability that it was drawn with.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from trl.trainer.utils import RepeatSampler

from videopro.backbones.qwen import SampledReply
from videopro.errors import Cancellation, cancellable
from videopro.train.rl.data import GRPORow, mix_seed
from videopro.train.rl.prompt_encoder import PolicyPrompt
from videopro.train.rl.samplers import Draw


class EpochSampler(RepeatSampler):
    """TRL's random order of rows, seeded by the seed and the epoch. TRL continues with the last epoch's
    generator, so a run resumed in a later epoch would see the rows in another order."""

    def __init__(self, like: RepeatSampler, epoch: Callable[[], int]) -> None:
        super().__init__(
            like.data_source,
            like.mini_repeat_count,
            batch_size=like.batch_size,
            repeat_count=like.repeat_count,
            shuffle=like.shuffle,
            seed=like.seed,
        )
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return self.order(self._epoch())

    def order(self, epoch: int) -> Iterator[int]:
        """The order of this epoch."""
        if self.shuffle:
            self.generator.manual_seed(mix_seed(self.seed or 0, epoch))
        return super().__iter__()


T = TypeVar("T")
Columns = list[dict[str, Any]]
"""The rows of a batch as TRL has them."""


@dataclass(frozen=True, eq=False)
class Round:
    """The rows of a round of sampling in this process, and what decides their replies."""

    rows: Sequence[GRPORow]
    prompts: Sequence[PolicyPrompt]
    seed: int
    first: int
    """The index of the first row among the rows of all processes."""
    version: int
    """The number of updates that the policy had which writes the replies."""
    ahead: Future[list[SampledReply]] | None = None
    """The first replies to the rows, if they are written ahead."""

    def draws(self) -> list[Draw]:
        """The first replies, to be drawn. Each depends only on the seed and its row's index."""
        numbered = enumerate(zip(self.prompts, self.rows, strict=True), self.first)
        return [Draw(prompt, row, (self.seed, number)) for number, (prompt, row) in numbered]


class LookAhead(Iterator[T], Generic[T]):
    """The batches of an epoch in order, of which one can be seen before its turn.

    `batches`: one for each pass of the model; `per_update`: passes of an update, of which the last one of an
    epoch may have fewer.
    """

    def __init__(self, batches: Iterator[T], per_update: int) -> None:
        self.batches = batches
        self._per_update = per_update
        self._waiting: deque[T] = deque()
        """Batches whose pass has not begun."""
        self._handed_out = 0
        """How many of them, the first ones, belong to the current update."""

    def __next__(self) -> T:
        if self._handed_out == len(self._waiting):
            self._waiting.append(next(self.batches))
        self._handed_out += 1
        return self._waiting[self._handed_out - 1]

    def begin(self) -> None:
        """The pass of the next batch begins."""
        # Batches are handed out before their pass: transformers takes those of an update together.
        self._waiting.popleft()
        self._handed_out -= 1

    def upcoming(self, passes: int) -> tuple[T | None, int]:
        """The batch of the pass that comes so many passes after the current one, and how many updates there
        are before it. None: it is the first of the next epoch."""
        while len(self._waiting) < passes:
            try:
                self._waiting.append(next(self.batches))
            except StopIteration:
                left = len(self._waiting) - self._handed_out
                return None, 1 + math.ceil(left / self._per_update)
        later = passes - self._handed_out
        return self._waiting[passes - 1], math.ceil(later / self._per_update) if later > 0 else 0


class RoundsAhead:
    """Has one round written ahead, in its own thread.

    That thread only sends requests to the engine. It uses no model, whose weights the update changes
    meanwhile, and takes part in no collective operation: those of two threads would reach the other processes
    in any order.

    `per_update`: as for `LookAhead`.
    """

    def __init__(self, per_update: int) -> None:
        self._per_update = per_update
        self.batches: LookAhead[Columns] | None = None
        """Of the current epoch, of which `LookAhead.upcoming` sees the later ones."""
        self._threads = ThreadPoolExecutor(1, "rollouts-ahead")
        self._cancellation = Cancellation()
        self._next: Round | None = None

    # -- the batches of the run

    def over(self, batches: Iterator[Columns]) -> Iterator[Columns]:
        """An epoch's batches as `batches`; the same object while they are the same."""
        if self.batches is None or self.batches.batches is not batches:
            self.batches = LookAhead(batches, self._per_update)
        return self.batches

    # -- the round that is written ahead

    @property
    def version(self) -> int | None:
        """The policy's version that writes it, or None."""
        return None if self._next is None else self._next.version

    def begin(self, round: Round, write: Callable[[], list[SampledReply]]) -> None:
        """Start to write its first replies; returns at once. What `write` raises, `Round.ahead` raises."""
        cancellation = self._cancellation = Cancellation()

        def work() -> list[SampledReply]:
            with cancellable(cancellation):
                return write()

        self._next = replace(round, ahead=self._threads.submit(work))

    def take(self, rows: Sequence[GRPORow]) -> Round | None:
        """The round begun for these rows, once it is written, or None."""
        # First: an interrupt here makes `discard` wait for the thread.
        self.wait()
        round, self._next = self._next, None
        assert round is None or [row.id for row in round.rows] == [row.id for row in rows]
        return round

    def wait(self) -> None:
        """Wait until nothing is being written. Raises nothing."""
        if self._next is not None and self._next.ahead is not None:
            wait([self._next.ahead])

    def discard(self) -> None:
        """Stop writing, and forget what was written."""
        self._cancellation.cancel()
        self.wait()
        self._next = self.batches = None
