"""One backbone for many programs: calls that come while it is busy go to it together as one batch.

Programs that run side by side ask one thing at a time each. Whoever finds the backbone free takes everything
that waits, up to a number of requests; nobody waits for company. Knows the backbone's interface only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
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
from videopro.errors import BackboneError, ConfigError
from videopro.video import Frame


@dataclass
class _PendingRequests:
    """One caller's requests: `kind` says which calls may share a batch."""

    kind: tuple[Any, ...]
    requests: Sequence[Any]
    serve: Callable[[Sequence[Any]], Sequence[Any]]
    done: Future[list[Any]] = field(default_factory=Future)


class BatchingBackbone(Backbone):
    """A backbone whose single calls from several threads are served in batches; thread safe.

    It answers with the adapter off (DESIGN.md: who answers inside modules), or on, or as it is (None).
    Requests of one batch that fail together are tried again by caller, so that one that cannot be served
    takes no other with it. Sampling goes alone where what a row draws depends on its place, that is, unless
    each request has a seed of its own.
    """

    def __init__(
        self,
        inner: Backbone,
        *,
        adapter: bool | None = False,
        most: int = 64,
        turn: threading.Lock | None = None,
    ) -> None:
        """`most`: requests in one batch at most, unless one caller brings more. `turn`: held while a batch is
        served; whoever else holds it keeps the backbone, and calls wait."""
        if most < 1:
            raise ConfigError(f"batching: most is {most}; it must be at least 1")
        self.inner = inner
        self.name = inner.name
        self.frames = inner.frames
        self.requests = 0
        """Requests served so far."""
        self.batches = 0
        """Batches that they were served in."""
        self._adapter = adapter
        self._most = most
        self._queue: deque[_PendingRequests] = deque()
        self._queued = threading.Lock()
        self._turn = turn if turn is not None else threading.Lock()

    def identity(self) -> dict[str, object]:
        if self._adapter is None:
            return self.inner.identity()
        with self._turn, self.inner.adapter(self._adapter):
            return self.inner.identity()

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return self.inner.frame_size(height, width, n_frames)

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return self._ask(("answer",), requests, self.inner.answer_batch)

    def yes_no(self, visual: Visual, text: str) -> Answer:
        return self.yes_no_batch([YesNoRequest(visual, text)])[0]

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        return self._ask(("yes_no",), requests, self.inner.yes_no_batch)

    def generate_batch(
        self,
        requests: Sequence[GenerateRequest],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> list[Generation]:
        def serve(some: Sequence[GenerateRequest]) -> list[Generation]:
            return self.inner.generate_batch(
                some, max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, seed=seed
            )

        # An object of its own as part of the kind: equal to no other.
        seeded = all(request.seed is not None for request in requests)
        alone: tuple[Any, ...] = (object(),) if temperature > 0 and not seeded else ()
        return self._ask(("generate", max_new_tokens, temperature, top_p, seed, *alone), requests, serve)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> Generation:
        def serve(some: Sequence[Any]) -> list[Generation]:
            return [
                self.inner.chat(
                    one, max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, seed=seed
                )
                for one in some
            ]

        return self._ask(("chat", object()), [messages], serve)[0]

    def prefix(self, frames: Sequence[Frame]) -> Prefix:
        def serve(some: Sequence[Any]) -> list[Prefix]:
            return [self.inner.prefix(one) for one in some]

        return self._ask(("prefix",), [frames], serve)[0]

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        raise BackboneError("this backbone answers with one adapter setting for all; switch the one inside")

    def close(self) -> None:
        self.inner.close()

    def _ask(
        self, kind: tuple[Any, ...], requests: Sequence[Any], serve: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> list[Any]:
        if not requests:
            return []
        mine = _PendingRequests(kind, requests, serve)
        with self._queued:
            self._queue.append(mine)
        # Batches are served until this one's turn has come: by oneself, or by whoever was before.
        while not mine.done.done():
            with self._turn:
                if not mine.done.done():
                    self._serve(self._next())
        return mine.done.result()

    def _next(self) -> list[_PendingRequests]:
        """The first in the queue, and what may go with it."""
        with self._queued:
            first = self._queue.popleft()
            batch, left = [first], deque[_PendingRequests]()
            room = self._most - len(first.requests)
            for one in self._queue:
                if one.kind == first.kind and len(one.requests) <= room:
                    batch.append(one)
                    room -= len(one.requests)
                else:
                    left.append(one)
            self._queue = left
        return batch

    def _serve(self, batch: Sequence[_PendingRequests]) -> None:
        try:
            self._serve_batch(batch)
        except BackboneError as error:
            if len(batch) == 1:
                batch[0].done.set_exception(error)
                return
            for one in batch:
                self._serve([one])
        except BaseException as error:
            # A fault of ours or an interruption: nobody may wait for ever.
            for one in batch:
                if not one.done.done():
                    one.done.set_exception(error)

    def _serve_batch(self, batch: Sequence[_PendingRequests]) -> None:
        requests = [request for one in batch for request in one.requests]
        self.requests += len(requests)
        self.batches += 1
        if self._adapter is None:
            results = list(batch[0].serve(requests))
        else:
            with self.inner.adapter(self._adapter):
                results = list(batch[0].serve(requests))
        at = 0
        for one in batch:
            one.done.set_result(results[at : at + len(one.requests)])
            at += len(one.requests)
