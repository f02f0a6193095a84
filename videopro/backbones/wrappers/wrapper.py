"""The base class of wrapper backbones, and the wrapper that meters the cost of answers."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from videopro.backbones.base import (
    GREEDY,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Sampling,
    YesNoRequest,
)
from videopro.backbones.wrappers.budget import QuestionBudget
from videopro.question import Answer
from videopro.traces import Cost
from videopro.video import Frame

T = TypeVar("T")


class BackboneWrapper(Backbone):
    """Forwards every call to the backbone `inner`; subclasses override what they change."""

    def __init__(self, inner: Backbone) -> None:
        self.inner = inner
        """The wrapped backbone."""
        self.name = inner.name
        self.frames = inner.frames
        self.planner = inner.planner
        self.record = inner.record
        self.server_settings = inner.server_settings
        self.is_concurrent = inner.is_concurrent

    @property
    def device(self) -> object:
        """The device of the inner one's model, for models that are placed with it; None if it is not in this
        process."""
        return getattr(self.inner, "device", None)

    @property
    def context_tokens(self) -> int | None:  # type: ignore[override]
        return self.inner.context_tokens

    @property
    def checkpoint(self) -> Path | None:  # type: ignore[override]
        return self.inner.checkpoint

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.inner.notes

    @property
    def versions(self) -> Mapping[str, str]:  # type: ignore[override]
        return self.inner.versions

    def identity(self) -> dict[str, object]:
        return self.inner.identity()

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return self.inner.frame_size(height, width, n_frames)

    def _call(self, ask: Callable[[], T], calls: int = 0, stage: str = "backbone") -> T:
        """Every request goes through here; `calls`: how many replies it has, `stage`: what its time counts
        as."""
        return ask()

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return self._call(lambda: self.inner.answer_batch(requests), len(requests))

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        return self._call(lambda: self.inner.yes_no_batch(requests), len(requests))

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        return self._call(lambda: self.inner.generate_batch(requests, sampling), len(requests))

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        return self._call(lambda: self.inner.prefix(frames, system=system), stage="encode")

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return self.inner.adapter(enabled)

    def close(self) -> None:
        self.inner.close()


class CostCounter(ABC):
    """An object that collects costs, and has the budget that they come out of."""

    @property
    @abstractmethod
    def budget(self) -> QuestionBudget:
        """What may still be spent."""

    @abstractmethod
    def add(self, cost: Cost) -> None:
        """Add frames, calls, tokens or seconds."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the wall time of a `with` block under `name`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(Cost(stages={name: time.perf_counter() - started}))


class Meter(CostCounter):
    """Adds up costs until they are taken. Not thread-safe."""

    def __init__(self, budget: QuestionBudget | None = None) -> None:
        """`budget` None: without limits."""
        self._budget = budget or QuestionBudget()
        self._cost = Cost()
        self._since = time.perf_counter()

    @property
    def budget(self) -> QuestionBudget:
        return self._budget

    def add(self, cost: Cost) -> None:
        self._cost = self._cost + cost

    def take(self) -> Cost:
        """The costs since the last call; `seconds` is the wall time since then."""
        now = time.perf_counter()
        cost = self._cost + Cost(seconds=now - self._since)
        self._cost, self._since = Cost(), now
        return cost


class ThreadMeter(CostCounter):
    """Counts into the meter that the calling thread has chosen, so that programs that share a backbone are
    counted separately."""

    def __init__(self) -> None:
        self._chosen = threading.local()

    @contextmanager
    def into(self, meter: Meter) -> Iterator[None]:
        """Within the block, this thread's costs go to `meter`."""
        # Restored and not cleared: an agent's tool may count apart inside a question that counts too.
        before = self._chosen.__dict__.get("meter")
        self._chosen.meter = meter
        try:
            yield
        finally:
            self._chosen.meter = before

    @property
    def _meter(self) -> Meter:
        meter: Meter | None = self._chosen.__dict__.get("meter")
        if meter is None:
            raise RuntimeError("no meter chosen in this thread to count a call")
        return meter

    @property
    def budget(self) -> QuestionBudget:
        return self._meter.budget

    def add(self, cost: Cost) -> None:
        self._meter.add(cost)


class MeteredBackbone(BackboneWrapper):
    """A backbone whose calls are counted: stage "backbone", and "encode" for prefixes. Raises BudgetExceeded
    for a call that the counter's budget does not allow."""

    def __init__(self, inner: Backbone, meter: CostCounter) -> None:
        super().__init__(inner)
        self._meter = meter

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        budget = self._meter.budget
        if len(requests) != 1 or requests[0].question.choices != budget.choices:
            return super().answer_batch(requests)
        with budget.last():
            (budget.answer,) = replies = super().answer_batch(requests)
        return replies

    def _call(self, ask: Callable[[], T], calls: int = 0, stage: str = "backbone") -> T:
        with self._meter.budget.spending(calls), self._meter.stage(stage):
            replies = ask()
        if isinstance(replies, list):  # no prefix
            tokens_in = sum(reply.tokens_in for reply in replies)
            tokens_out = sum(reply.tokens_out for reply in replies)
            self._meter.add(Cost(calls=len(replies), tokens_in=tokens_in, tokens_out=tokens_out))
        return replies
