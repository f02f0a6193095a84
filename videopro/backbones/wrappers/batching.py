"""One backbone for many programs: calls that arrive while it is busy are served together as one batch.

Programs that run concurrently make one request at a time each. A caller that finds the backbone free serves
all waiting requests, up to a limit; no request waits for others to join it. While replies are written, what
takes a single pass is served between two steps, and more replies join, if the backbone can do that.
`share_backbone` decides which backbones need this.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from videopro.backbones.base import (
    GREEDY,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Joining,
    JoiningBackbone,
    Prefix,
    Sampling,
    YesNoRequest,
)
from videopro.backbones.wrappers.wrapper import BackboneWrapper
from videopro.errors import (
    BackboneError,
    Cancellation,
    Cancelled,
    cancellable,
    current_cancellation,
    is_machines,
    when_cancelled,
)
from videopro.question import Answer
from videopro.video import Frame

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


@dataclass(eq=False)
class _PendingRequests:
    """One caller's requests."""

    kind: tuple[object, ...]
    """Calls of equal kind may share a batch; the first part is the adapter: on, off, or None (unchanged). A
    new `object()` in it equals no other, so that call is served alone."""
    requests: Sequence[Any]
    serve: Callable[[Sequence[Any]], Sequence[Any]]
    joins: Callable[[Sequence[Any], Joining], None] | None = None
    """Serves them so that others can join, if the backbone can."""
    is_single_pass: bool = False
    """Whether they take a pass of the model each, and may run between two steps of replies."""
    done: Future[list[Any]] = field(default_factory=Future)
    cancellation: Cancellation | None = field(default_factory=current_cancellation)
    """Of the caller's work."""

    @property
    def is_cancelled(self) -> bool:
        """Whether its caller has stopped waiting."""
        return self.cancellation is not None and self.cancellation.is_cancelled


class BatchingBackbone(BackboneWrapper):
    """A backbone that serves single calls from several threads in batches; thread-safe.

    It answers with the adapter off (modules are answered by the base model), on, or unchanged (None). If a
    batch fails, each caller's requests are retried separately, so that a request that cannot be served fails
    only its own caller. Sampled replies are not batched unless each request has its own seed, because a row's
    samples depend on its place in the batch.

    A batch holds what waits when the backbone becomes free, and what joins, so its rows, and with them the
    rounding of an answer, depend on timing.

    A caller whose work is cancelled leaves the line, and its replies leave the batch at the next step; the
    others continue. Only a caller that is serving others returns after these are served.
    """

    def __init__(self, inner: Backbone, *, adapter: bool | None = False, max_batch: int = 64) -> None:
        """`max_batch`: maximum requests in a batch, unless a single caller has more."""
        super().__init__(inner)
        self._adapter = adapter
        self._line = _Line(max_batch)

    def with_adapter(self, adapter: bool | None) -> BatchingBackbone:
        """The same backbone with another adapter setting. Both have one queue: a batch is chosen only when
        the model is free."""
        other = copy.copy(self)
        other._adapter = adapter
        return other

    def identity(self) -> dict[str, object]:
        with self._line.serving(), self._adapter_setting():
            return super().identity()

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return self._submit(("answer",), requests, self.inner.answer_batch, is_single_pass=True)

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        return self._submit(("yes_no",), requests, self.inner.yes_no_batch, is_single_pass=True)

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        def serve(batch: Sequence[GenerateRequest]) -> list[Generation]:
            return self.inner.generate_batch(batch, sampling)

        is_seeded = all(request.seed is not None for request in requests)
        kind: tuple[object, ...] = ("generate", sampling)
        if sampling.temperature > 0 and not is_seeded:
            kind = (*kind, object())
        joins: Callable[[Sequence[GenerateRequest], Joining], None] | None = None
        if isinstance(inner := self.inner, JoiningBackbone):

            def joins(batch: Sequence[GenerateRequest], joining: Joining) -> None:
                with self._adapter_setting():
                    inner.generate_joining(batch, sampling, joining)

        return self._submit(kind, requests, serve, joins=joins)

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        def serve(videos: Sequence[Sequence[Frame]]) -> list[Prefix]:
            return [self.inner.prefix(video, system=system) for video in videos]

        # Alone, as a model encodes one video at a time: each caller continues as soon as its own is there.
        return self._submit(("prefix", object()), [frames], serve, is_single_pass=True)[0]

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        raise BackboneError(
            "this backbone's adapter setting is fixed for all callers; switch the wrapped backbone's instead"
        )

    def _submit(
        self,
        kind: tuple[object, ...],
        requests: Sequence[RequestT],
        serve: Callable[[Sequence[RequestT]], Sequence[ReplyT]],
        *,
        joins: Callable[[Sequence[RequestT], Joining], None] | None = None,
        is_single_pass: bool = False,
    ) -> list[ReplyT]:
        def serve_adapted(batch: Sequence[RequestT]) -> Sequence[ReplyT]:
            with self._adapter_setting():
                return serve(batch)

        if not requests:
            return []
        kind = (self._adapter, *kind)
        return self._line.submit(_PendingRequests(kind, requests, serve_adapted, joins, is_single_pass))

    def _adapter_setting(self) -> AbstractContextManager[None]:
        return nullcontext() if self._adapter is None else self.inner.adapter(self._adapter)


class _Line:
    """The requests that wait for one backbone."""

    def __init__(self, max_batch: int) -> None:
        self._max_batch = max_batch
        self._queue: deque[_PendingRequests] = deque()
        self._changed = threading.Condition()
        """Guards the queue; notified when requests are done and when the backbone becomes free."""
        self._is_serving = False

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Within, the backbone is this thread's."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_serving)
            self._is_serving = True
        try:
            yield
        finally:
            self._free()

    def _free(self) -> None:
        with self._changed:
            self._is_serving = False
            self._changed.notify_all()

    def submit(self, submitted: _PendingRequests) -> list[Any]:
        """The replies to one caller's requests, served with others of their kind. Raises Cancelled."""
        with when_cancelled(self._notify):
            with self._changed:
                self._queue.append(submitted)
            # Each caller serves batches until its own requests are done, by itself or by another caller.
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: submitted.done.done() or submitted.is_cancelled or not self._is_serving
                    )
                    if submitted.done.done():
                        return submitted.done.result()
                    if submitted.is_cancelled:
                        # Of a batch that is being served the others take no notice.
                        if submitted in self._queue:
                            self._queue.remove(submitted)
                        raise Cancelled
                    self._is_serving = True
                    batch = self._next_batch()
                try:
                    self._serve(batch)
                finally:
                    self._free()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def finish(self, pending: _PendingRequests, results: list[Any]) -> None:
        """Hand a caller its replies."""
        with self._changed:
            pending.done.set_result(results)
            self._changed.notify_all()

    def serve_passes(self, adapter: object) -> None:
        """Serve those requests that take single passes and wait now, on the thread that writes replies with
        this setting of the adapter. Those that leave the adapter unchanged wait, unless the replies do too:
        it may be switched while these are written."""

        def fits(pending: _PendingRequests) -> bool:
            return pending.is_single_pass and (adapter is None or pending.kind[0] is not None)

        with self._changed:
            waiting = sum(fits(pending) and not pending.is_cancelled for pending in self._queue)
        while waiting > 0:
            with self._changed:
                batch = self._next_batch(fits)
            # The others of a kind may have gone with an earlier batch.
            waiting -= max(len(batch), 1)
            if batch:
                self._serve(batch)

    def take(self, kind: tuple[object, ...], room: int) -> list[_PendingRequests]:
        """Remove and return waiting requests of this kind, at most `room` of them."""
        batch, left = [], deque[_PendingRequests]()
        with self._changed:
            for pending in self._queue:
                # Later ones that fit may overtake one that does not: it comes first in the next batch.
                if pending.kind == kind and len(pending.requests) <= room and not pending.is_cancelled:
                    batch.append(pending)
                    room -= len(pending.requests)
                else:
                    left.append(pending)
            self._queue = left
        return batch

    def _next_batch(
        self, may_join: Callable[[_PendingRequests], bool] = lambda pending: True
    ) -> list[_PendingRequests]:
        """The first in the queue that is wanted, and the others of its kind that fit. None whose caller has
        gone: it removes what it left."""
        waiting = (pending for pending in self._queue if not pending.is_cancelled)
        first = next((pending for pending in waiting if may_join(pending)), None)
        if first is None:
            return []
        self._queue.remove(first)
        # A single caller may have more requests than a batch has room for.
        return [first, *self.take(first.kind, self._max_batch - len(first.requests))]

    def _serve(self, batch: list[_PendingRequests]) -> None:
        """Serve a batch, to which requests may be added meanwhile."""
        if not batch:
            return
        # What one caller waits for alone ends with its work, whichever thread serves it; what several share
        # does not end with the work of this thread.
        is_alone = len(batch) == 1 and batch[0].joins is None
        try:
            with cancellable(batch[0].cancellation if is_alone else None):
                self._serve_batch(batch)
            return
        except Cancelled as cancelled:
            self._fail(batch, cancelled)
            return
        except BaseException as error:
            waiting = [pending for pending in batch if not pending.done.done()]
            if len(batch) == 1 or not isinstance(error, Exception) or is_machines(error):
                # Also after an interruption: no caller may wait forever.
                self._fail(waiting, error)
                if not isinstance(error, Exception):
                    # An interruption is this thread's, whose own replies it may be writing meanwhile.
                    raise
                return
        # One bad request fails the whole batch; served apart, only that one fails. Outside of the handler:
        # its error's traceback would begin with the batch's.
        for pending in waiting:
            self._serve([replace(pending, joins=None)])

    def _fail(self, batch: Sequence[_PendingRequests], error: BaseException) -> None:
        """Raise an error in the callers that wait for a reply."""
        with self._changed:
            for pending in batch:
                if not pending.done.done():
                    pending.done.set_exception(error)
            self._changed.notify_all()

    def _serve_batch(self, batch: list[_PendingRequests]) -> None:
        requests = [request for pending in batch for request in pending.requests]
        first = batch[0]
        if first.joins is not None:
            first.joins(requests, _Joined(self, batch))
            # All others have their replies.
            self._fail([pending for pending in batch if pending.is_cancelled], Cancelled())
            return
        results = list(first.serve(requests))
        start = 0
        for pending in batch:
            end = start + len(pending.requests)
            self.finish(pending, results[start:end])
            start = end


class _Joined:
    """A batch of replies that are being written: who waits for them, and who may join (`Joining`)."""

    def __init__(self, line: _Line, batch: list[_PendingRequests]) -> None:
        """`batch`: the first requests; those that join are appended."""
        self._line = line
        self._batch = batch
        self._kind = batch[0].kind
        self._owners: list[tuple[_PendingRequests, int]] = []
        self._replies: dict[int, dict[int, Generation]] = {}
        for pending in batch:
            self._claim(pending)

    def _claim(self, pending: _PendingRequests) -> None:
        self._owners += [(pending, index) for index in range(len(pending.requests))]
        self._replies[id(pending)] = {}

    def pause(self) -> None:
        """Serve what takes a single pass."""
        self._line.serve_passes(self._kind[0])

    def take(self, room: int) -> list[GenerateRequest]:
        """More requests of the same kind."""
        # The caller whose thread this is goes home with the batch: nobody may keep it for ever.
        if self._batch[0].done.done() or self._batch[0].is_cancelled:
            return []
        joining = self._line.take(self._kind, room)
        self._batch += joining
        for pending in joining:
            self._claim(pending)
        return [request for pending in joining for request in pending.requests]

    def cancelled(self) -> list[int]:
        """The numbers of the requests whose callers have gone."""
        return [number for number, (pending, _) in enumerate(self._owners) if pending.is_cancelled]

    def done(self, number: int, reply: Generation) -> None:
        """Hand a caller its replies once they are all there."""
        pending, index = self._owners[number]
        replies = self._replies[id(pending)]
        replies[index] = reply
        if len(replies) == len(pending.requests):
            self._line.finish(pending, [replies[index] for index in range(len(replies))])


def share_backbone(backbone: Backbone, *, adapter: bool | None = None) -> Backbone:
    """The backbone for any number of threads, with its adapter on, off, or unchanged (None).

    A server gets each request as it comes. A model in this process gets those that wait for it in batches
    (`BatchingBackbone`), and what is shared once more waits in the same queue.
    """
    if isinstance(backbone, BatchingBackbone):
        return backbone.with_adapter(adapter)
    if not backbone.is_concurrent:
        return BatchingBackbone(backbone, adapter=adapter)
    return backbone if adapter is None else AdapterBackbone(backbone, adapter)


class AdapterBackbone(BackboneWrapper):
    """A backbone that serves several threads at a time, with its adapter on or off in every call."""

    def __init__(self, inner: Backbone, adapter: bool) -> None:
        super().__init__(inner)
        self._adapter = adapter

    def _call(self, ask: Callable[[], ReplyT], calls: int = 0, stage: str = "backbone") -> ReplyT:
        with self.inner.adapter(self._adapter):
            return ask()

    def identity(self) -> dict[str, object]:
        return self._call(self.inner.identity)

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        raise BackboneError("this backbone's adapter setting is fixed; switch its inner backbone's")
