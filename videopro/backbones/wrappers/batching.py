"""One backbone for many programs: calls that arrive while it is busy are served together as one batch.

Programs that run concurrently make one request at a time each. A thread of the backbone's own serves all that
wait, up to a limit; no request waits for others to join it. While replies are written, what takes a single
pass is served between two steps, and more replies join as others are done, if the backbone can do that.
`share_backbone` decides which backbones need this.
"""

from __future__ import annotations

import atexit
import copy
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from videopro.backbones.base import (
    GREEDY,
    Awaited,
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
    is_machines,
    when_cancelled,
)
from videopro.question import Answer
from videopro.video import Frame

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


_IDLE = 10.0
"""Seconds after which a thread that has nothing to do ends; a new one takes milliseconds to warm up."""
_LAST_STEP = 10.0
"""Seconds that the exit of Python waits for what is being computed."""


@dataclass(eq=False)
class _PendingRequests:
    """One caller's requests."""

    kind: tuple[object, ...]
    """Calls of equal kind may share a batch; the first part is the adapter: on, off, or None (unchanged). A
    new `object()` in it equals no other, so that call is served alone."""
    requests: Sequence[Any]
    serve: Callable[[Sequence[Any]], Sequence[Any]]
    joins: Callable[[Joining], None] | None = None
    """Serves them and others that join, if the backbone can."""
    is_single_pass: bool = False
    """Whether they take a pass of the model each, and may run between two steps of replies."""
    done: Future[list[Any]] = field(default_factory=Future)
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Of what is done for this caller."""
    overtaken: int = 0
    """How many later requests of another kind were begun before these."""

    def finish(self, results: list[Any]) -> None:
        """Hand the caller its replies."""
        with suppress(InvalidStateError):
            self.done.set_result(results)

    def fail(self, error: BaseException) -> None:
        """Raise an error in the caller, if it waits."""
        with suppress(InvalidStateError):
            self.done.set_exception(error)

    def leave(self) -> None:
        """The caller does not wait any more."""
        self.fail(Cancelled())
        self.cancellation.cancel()

    def awaited(self) -> list[Awaited]:
        """Each of the requests, which are replied to one by one."""
        replies: dict[int, Generation] = {}

        def done(number: int, reply: Generation) -> None:
            replies[number] = reply
            if len(replies) == len(self.requests):
                self.finish([replies[each] for each in range(len(replies))])

        return [
            Awaited(request, number, partial(done, number), self.fail, lambda: self.cancellation.is_cancelled)
            for number, request in enumerate(self.requests)
        ]


class BatchingBackbone(BackboneWrapper):
    """A backbone that serves single calls from several threads in batches; thread-safe.

    It answers with the adapter off (modules are answered by the base model), on, or unchanged (None). If a
    batch fails, each caller's requests are retried separately, so that a request that cannot be served fails
    only its own caller. Sampled replies are not batched unless each request has its own seed, because a row's
    samples depend on its place in the batch.

    A batch holds what waits when the backbone becomes free, and what joins, so its rows, and with them the
    rounding of an answer, depend on timing.

    A caller whose work is cancelled or interrupted leaves at once, and its replies leave the batch at the
    next step; the others continue.
    """

    def __init__(self, inner: Backbone, *, adapter: bool | None = False, max_batch: int = 64) -> None:
        """`max_batch`: nothing is added to a batch of so many requests, and at most as many overtake one of
        another kind."""
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
        return self._submit(
            ("identity", object()), [self.inner], lambda asked: [asked[0].identity()], is_single_pass=True
        )[0]

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
        joins: Callable[[Joining], None] | None = None
        if isinstance(inner := self.inner, JoiningBackbone):

            def joins(joining: Joining) -> None:
                with self._adapter_setting():
                    inner.generate_joining(sampling, joining)

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
        joins: Callable[[Joining], None] | None = None,
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
    """The requests that wait for one backbone, and the thread that serves them."""

    def __init__(self, max_batch: int) -> None:
        self._max_batch = max_batch
        self.begin()
        _lines.add(self)

    def begin(self) -> None:
        """Begin without requests and without a thread, as also in a process that was forked."""
        self._queue: list[_PendingRequests] = []
        self._waiting: set[_PendingRequests] = set()
        """Those whose callers wait, served or not."""
        self._changed = threading.Condition()
        """Guards all of it; notified when there is something to do."""
        self._server: threading.Thread | None = None
        self._is_ending = False

    def end(self) -> None:
        """Serve nobody any more, and let the thread end: at the exit of Python it may not be in a step. Who
        waits is a thread that the exit does not wait for either, and gets nothing."""
        with self._changed:
            self._is_ending = True
            self._queue.clear()
            self._changed.notify()
            server, waiting = self._server, list(self._waiting)
        for pending in waiting:
            pending.cancellation.cancel()
        if server is not None:
            server.join(_LAST_STEP)

    def submit(self, submitted: _PendingRequests) -> list[Any]:
        """The replies to one caller's requests, served with others of their kind. Raises Cancelled."""
        try:
            with self._changed:
                self._queue.append(submitted)
                self._waiting.add(submitted)
                if self._server is None:
                    # A daemon: an exit does not wait for what nobody waits for.
                    self._server = threading.Thread(target=self._work, name="backbone", daemon=True)
                    self._server.start()
                self._changed.notify()
            with when_cancelled(submitted.leave):
                return submitted.done.result()
        finally:
            # Also after an interruption of this thread, of which the others take no notice.
            submitted.leave()
            with self._changed:
                self._waiting.discard(submitted)
                if submitted in self._queue:
                    self._queue.remove(submitted)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_ending, _IDLE)
                if not self._queue:
                    self._server = None
                    return
                batch = self._begin(self._queue[0])
            self._serve(batch)
            del batch  # Its frames and replies are not kept while nothing is asked.

    def serve_passes(self, adapter: object) -> None:
        """Serve those requests that take single passes and wait now, between two steps of replies with this
        setting of the adapter. Those that leave the adapter unchanged wait, unless the replies do too: it may
        be switched while these are written."""
        with self._changed:
            waiting = [
                pending
                for pending in self._queue
                if pending.is_single_pass and (adapter is None or pending.kind[0] is not None)
            ]
        for pending in waiting:
            self._serve(self._begin(pending))

    def take(self, kind: tuple[object, ...], room: int) -> list[_PendingRequests]:
        """Remove and return waiting requests of this kind, until there are `room` of them; the last caller's
        may be more. None overtakes one of another kind that `max_batch` have overtaken: that is served when
        the batch has ended."""
        batch: list[_PendingRequests] = []
        other: _PendingRequests | None = None
        with self._changed:
            for pending in list(self._queue):
                if pending.kind != kind:
                    other = other or pending
                elif room > 0 and (other is None or other.overtaken < self._max_batch):
                    self._queue.remove(pending)
                    batch.append(pending)
                    room -= len(pending.requests)
                    if other is not None:
                        other.overtaken += len(pending.requests)
        return batch

    def _begin(self, first: _PendingRequests) -> list[_PendingRequests]:
        """Remove these requests and the others of their kind that fit, unless they have gone."""
        with self._changed:
            if first not in self._queue:
                return []
            self._queue.remove(first)
            if first.joins is not None:  # It takes the others itself.
                return [first]
            return [first, *self.take(first.kind, self._max_batch - len(first.requests))]

    def _serve(self, batch: list[_PendingRequests]) -> None:
        """Serve a batch, to which requests may be added meanwhile."""
        # What one caller waits for alone ends with its work; what several share does not.
        is_alone = len(batch) == 1 and batch[0].joins is None
        try:
            with cancellable(batch[0].cancellation if is_alone else None):
                self._serve_batch(batch)
            return
        except BaseException as error:
            waiting = [
                pending
                for pending in batch
                if not pending.done.done() and not pending.cancellation.is_cancelled
            ]
            if len(batch) == 1 or not isinstance(error, Exception) or is_machines(error):
                # Whatever it is: no caller may wait forever.
                for pending in waiting:
                    pending.fail(error)
                return
        # One bad request fails the whole batch; served apart, only that one fails. Outside of the handler:
        # its error's traceback would begin with the batch's.
        for pending in waiting:
            self._serve([replace(pending, joins=None)])

    def _serve_batch(self, batch: list[_PendingRequests]) -> None:
        if batch and batch[0].joins is not None:
            batch[0].joins(_Joined(self, batch))
        elif batch:
            results = iter(batch[0].serve([request for pending in batch for request in pending.requests]))
            for pending in batch:
                pending.finish(list(islice(results, len(pending.requests))))


_lines: weakref.WeakSet[_Line] = weakref.WeakSet()


def _end() -> None:
    for line in _lines:
        line.end()


def _begin_anew() -> None:
    for line in _lines:
        line.begin()


atexit.register(_end)
os.register_at_fork(after_in_child=_begin_anew)


class _Joined(Joining):
    """A batch of replies that are being written: who waits for them, and who may join."""

    def __init__(self, line: _Line, batch: list[_PendingRequests]) -> None:
        """`batch`: the first requests; it is kept as those that wait for a reply."""
        self._line = line
        self._batch = batch
        self._kind = batch[0].kind
        self._next = batch[0].awaited()

    def pause(self) -> None:
        """Serve what takes a single pass."""
        self._line.serve_passes(self._kind[0])

    def take(self, room: int) -> list[Awaited]:
        """More requests of the same kind."""
        self._next = [one for one in self._next if not one.is_cancelled()]
        joining = self._line.take(self._kind, room - len(self._next))
        self._batch[:] = [pending for pending in self._batch if not pending.done.done()] + joining
        self._next += [one for pending in joining for one in pending.awaited()]
        taken, self._next = self._next[:room], self._next[room:]
        return taken


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
