"""Counting what an answer costs: a meter, and a backbone that reports to it.

Knows the backbone's interface and the trace's `Cost`, and nothing of methods.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from videopro.backbones.base import (
    Answer,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Visual,
    YesNoRequest,
)
from videopro.traces import Cost


class CostCounter(ABC):
    """Where costs are told."""

    @abstractmethod
    def add(self, cost: Cost) -> None:
        """Count frames, calls or tokens."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the seconds of a block under `name`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(Cost(stages={name: time.perf_counter() - started}))


class Meter(CostCounter):
    """Adds up costs until they are taken. One thread at a time."""

    def __init__(self) -> None:
        self._cost = Cost()
        self._since = time.perf_counter()

    def add(self, cost: Cost) -> None:
        self._cost = self._cost + cost

    def take(self) -> Cost:
        """Everything since the last call, `seconds` being the wall time since then."""
        now = time.perf_counter()
        cost = self._cost + Cost(seconds=now - self._since)
        self._cost, self._since = Cost(), now
        return cost


class ThreadMeter(CostCounter):
    """Counts into the meter that the calling thread has chosen, so that programs that run side by side on one
    backbone are counted apart."""

    def __init__(self) -> None:
        self._chosen = threading.local()

    @contextmanager
    def into(self, meter: Meter) -> Iterator[None]:
        """Within the block, what this thread does counts there."""
        before = self._chosen.__dict__.get("meter")
        self._chosen.meter = meter
        try:
            yield
        finally:
            self._chosen.meter = before

    def add(self, cost: Cost) -> None:
        meter = self._chosen.__dict__.get("meter")
        if meter is None:
            raise RuntimeError("a call is counted in a thread that has chosen no meter")
        meter.add(cost)


class MeteredBackbone(Backbone):
    """The same backbone, whose calls are counted: stage "backbone", and "encode" for prefixes."""

    def __init__(self, inner: Backbone, meter: CostCounter) -> None:
        self._inner = inner
        self._meter = meter
        self.name = inner.name
        self.frames = inner.frames

    def identity(self) -> dict[str, object]:
        return self._inner.identity()

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return self._inner.frame_size(height, width, n_frames)

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        with self._meter.stage("backbone"):
            answers = self._inner.answer_batch(requests)
        self._count(answers)
        return answers

    def yes_no(self, visual: Visual, text: str) -> Answer:
        with self._meter.stage("backbone"):
            answer = self._inner.yes_no(visual, text)
        self._count([answer])
        return answer

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        with self._meter.stage("backbone"):
            answers = self._inner.yes_no_batch(requests)
        self._count(answers)
        return answers

    def generate_batch(
        self,
        requests: Sequence[GenerateRequest],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> list[Generation]:
        with self._meter.stage("backbone"):
            replies = self._inner.generate_batch(
                requests, max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, seed=seed
            )
        self._count(replies)
        return replies

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> Generation:
        with self._meter.stage("backbone"):
            reply = self._inner.chat(
                messages, max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, seed=seed
            )
        self._count([reply])
        return reply

    def prefix(self, frames: Sequence[Any]) -> Prefix:
        with self._meter.stage("encode"):
            return self._inner.prefix(frames)

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return self._inner.adapter(enabled)

    def close(self) -> None:
        self._inner.close()

    def _count(self, replies: Sequence[Answer | Generation]) -> None:
        out = 0
        for reply in replies:
            out += reply.tokens_out if isinstance(reply, Answer) else len(reply.token_ids)
        tokens_in = sum(reply.tokens_in for reply in replies)
        self._meter.add(Cost(calls=len(replies), tokens_in=tokens_in, tokens_out=out))
