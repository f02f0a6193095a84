"""One backbone for many programs: calls that arrive while it is busy are served together as one batch.

Programs that run concurrently make one request at a time each. A caller that finds the backbone free serves
all waiting requests, up to a limit; no request waits for others to join it. `share_backbone` decides which
backbones need this.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

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
from videopro.backbones.wrappers.wrapper import BackboneWrapper
from videopro.errors import BackboneError, ConfigError, is_machines
from videopro.question import Answer
from videopro.video import Frame

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


@dataclass
class _PendingRequests:
    """One caller's requests."""

    kind: tuple[object, ...]
    """Calls of equal kind may share a batch. A new `object()` in it equals no other, so that call is served
    alone."""
    requests: Sequence[Any]
    serve: Callable[[Sequence[Any]], Sequence[Any]]
    done: Future[list[Any]] = field(default_factory=Future)


class BatchingBackbone(BackboneWrapper):
    """A backbone that serves single calls from several threads in batches; thread-safe.

    It answers with the adapter off (modules are answered by the base model), on, or as it is (None). If a
    batch fails, each caller's requests are retried separately, so that a request that cannot be served fails
    only its own caller. Sampled replies are not batched unless each request has its own seed, because a row's
    samples depend on its place in the batch.

    A batch holds what waits when the backbone becomes free, so its rows, and with them the rounding of an
    answer, depend on timing.
    """

    def __init__(self, inner: Backbone, *, adapter: bool | None = False, max_batch: int = 64) -> None:
        """`max_batch`: maximum requests in a batch, unless a single caller has more. Raises ConfigError if it
        is not positive."""
        if max_batch < 1:
            raise ConfigError(f"batching: max_batch is {max_batch}; it must be at least 1")
        super().__init__(inner)
        self._adapter = adapter
        self._line = _Line(max_batch)

    @property
    def requests(self) -> int:
        """Requests served so far, those of the backbones that share its queue included."""
        return self._line.requests

    @property
    def batches(self) -> int:
        """Batches served so far, in the same way."""
        return self._line.batches

    def with_adapter(self, adapter: bool | None) -> BatchingBackbone:
        """The same backbone with another adapter setting. Both have one queue: a batch is chosen only when
        the model is free, whoever waits for it."""
        other = copy.copy(self)
        other._adapter = adapter
        return other

    def identity(self) -> dict[str, object]:
        with self._line.serving, self._adapter_setting():
            return super().identity()

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return self._submit(("answer",), requests, self.inner.answer_batch)

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        return self._submit(("yes_no",), requests, self.inner.yes_no_batch)

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        def serve(batch: Sequence[GenerateRequest]) -> list[Generation]:
            return self.inner.generate_batch(batch, sampling)

        is_seeded = all(request.seed is not None for request in requests)
        kind: tuple[object, ...] = ("generate", sampling)
        if sampling.temperature > 0 and not is_seeded:
            kind = (*kind, object())
        return self._submit(kind, requests, serve)

    def chat(self, messages: Sequence[Mapping[str, Any]], sampling: Sampling = GREEDY) -> Generation:
        def serve(chats: Sequence[Sequence[Mapping[str, Any]]]) -> list[Generation]:
            return [self.inner.chat(chat, sampling) for chat in chats]

        return self._submit(("chat", object()), [messages], serve)[0]

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        def serve(videos: Sequence[Sequence[Frame]]) -> list[Prefix]:
            return [self.inner.prefix(video, system=system) for video in videos]

        # Alone, as a model encodes one video at a time: each caller goes on as soon as its own is there.
        return self._submit(("prefix", object()), [frames], serve)[0]

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        raise BackboneError(
            "this backbone has one adapter setting for all callers; switch the wrapped backbone's instead"
        )

    def _submit(
        self,
        kind: tuple[object, ...],
        requests: Sequence[RequestT],
        serve: Callable[[Sequence[RequestT]], Sequence[ReplyT]],
    ) -> list[ReplyT]:
        def serve_adapted(batch: Sequence[RequestT]) -> Sequence[ReplyT]:
            with self._adapter_setting():
                return serve(batch)

        return self._line.submit((self._adapter, *kind), requests, serve_adapted) if requests else []

    def _adapter_setting(self) -> AbstractContextManager[None]:
        return nullcontext() if self._adapter is None else self.inner.adapter(self._adapter)


class _Line:
    """The requests that wait for one backbone."""

    def __init__(self, max_batch: int) -> None:
        self.requests = 0
        self.batches = 0
        self.serving = threading.Lock()
        """Held while the backbone is in use."""
        self._max_batch = max_batch
        self._queue: deque[_PendingRequests] = deque()
        self._queue_lock = threading.Lock()

    def submit(
        self,
        kind: tuple[object, ...],
        requests: Sequence[RequestT],
        serve: Callable[[Sequence[RequestT]], Sequence[ReplyT]],
    ) -> list[ReplyT]:
        """The replies to one caller's requests, served with others of their kind."""
        submitted = _PendingRequests(kind, requests, serve)
        with self._queue_lock:
            self._queue.append(submitted)
        # Each caller serves batches until its own requests are done, by itself or by another caller.
        while not submitted.done.done():
            with self.serving:
                if not submitted.done.done():
                    self._serve(self._next_batch())
        return submitted.done.result()

    def _next_batch(self) -> list[_PendingRequests]:
        """The first in the queue, and the others of its kind that fit."""
        with self._queue_lock:
            first = self._queue.popleft()
            batch, left = [first], deque[_PendingRequests]()
            room = self._max_batch - len(first.requests)
            for pending in self._queue:
                # Later ones that fit may overtake one that does not: it comes first in the next batch.
                if pending.kind == first.kind and len(pending.requests) <= room:
                    batch.append(pending)
                    room -= len(pending.requests)
                else:
                    left.append(pending)
            self._queue = left
        return batch

    def _serve(self, batch: Sequence[_PendingRequests]) -> None:
        try:
            self._serve_batch(batch)
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, Exception) and not is_machines(error):
                # One bad request fails the whole batch; served apart, only that one fails.
                for pending in batch:
                    self._serve([pending])
                return
            # Also after an interruption: no caller may wait forever.
            for pending in batch:
                if not pending.done.done():
                    pending.done.set_exception(error)

    def _serve_batch(self, batch: Sequence[_PendingRequests]) -> None:
        requests = [request for pending in batch for request in pending.requests]
        self.requests += len(requests)
        self.batches += 1
        results = list(batch[0].serve(requests))
        start = 0
        for pending in batch:
            end = start + len(pending.requests)
            pending.done.set_result(results[start:end])
            start = end
