"""A long call of a client: it works on a thread, its progress is told, and its end stops the work.

Calls that take long wait in a fair line (`InLine`), as questions over HTTP do; a call that waits takes no
thread, so that short ones (`AtOnce`) are served meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request

from videopro.errors import Cancellation, Cancelled, ConfigError, cancellable
from videopro.serve.guards import HANG_UP
from videopro.serve.line import FairLine

T = TypeVar("T")
# Told while nobody reads it, of a question of an hour.
_MOST_REPORTS = 10_000
_STEP, _PLACE = 1.0, 0.001
"""By how much the progress of a call rises with what is not counted, since it has to rise. Little for a new
place in line: what is counted afterwards, such as clips, begins at 0."""


class Tell(Protocol):
    """Tells what is being done."""

    def __call__(self, doing: str, done: float | None = None, total: float | None = None) -> None:
        """`done` of `total`; None: how much there is to do is not known."""


@dataclass(frozen=True)
class _Told:
    doing: str
    done: float | None = None
    total: float | None = None
    rise: float = _STEP


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


class Turn(Protocol):
    """When a call is worked on, and on which thread."""

    async def run(self, job: Callable[[], _Outcome], on_place: Callable[[int], None]) -> _Outcome:
        """What `job` returns. Cancelled while it waits, it never runs. Raises Problem if too many wait."""


class AtOnce:
    """At once, on one of a few threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, job: Callable[[], _Outcome], on_place: Callable[[int], None]) -> _Outcome:
        if self._limiter is None:  # It belongs to the loop that first uses it.
            self._limiter = anyio.CapacityLimiter(self._threads)
        return await to_thread.run_sync(job, abandon_on_cancel=True, limiter=self._limiter)


@dataclass(frozen=True)
class InLine:
    """In turn with other clients."""

    line: FairLine
    client: str
    seconds: float | None = None
    """Time limit of the work once it has begun; None: none."""

    async def run(self, job: Callable[[], _Outcome], on_place: Callable[[int], None]) -> _Outcome:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Outcome] = loop.create_future()

        def finish(outcome: _Outcome) -> None:
            if not done.done():
                done.set_result(outcome)

        def start() -> None:
            outcome = job()
            with suppress(RuntimeError):  # The server has ended, and its loop is closed.
                loop.call_soon_threadsafe(finish, outcome)

        ticket = self.line.enter(self.client, start, on_place)
        try:
            return await done
        finally:
            self.line.leave(ticket)


class Calls:
    """The calls of a server that are not answered yet."""

    def __init__(self) -> None:
        self._open: set[Cancellation] = set()

    @contextmanager
    def one(self) -> Iterator[Cancellation]:
        """A call."""
        cancellation = Cancellation()
        self._open.add(cancellation)
        try:
            yield cancellation
        finally:
            self._open.discard(cancellation)

    def stop_all(self) -> None:
        """Stop all of them: the server ends."""
        for cancellation in list(self._open):
            cancellation.cancel()


async def work_for(context: Context[Any, Any], calls: Calls, turn: Turn, work: Callable[[Tell], T]) -> T:
    """The result of `work`, which runs on a thread when its turn comes; its place is told until then. If the
    client cancels the call or goes, the work is cancelled and not waited for. Raises what the work raised."""
    with calls.one() as cancellation:
        # A client of 2025 says nothing when it goes, and the protocol lets it come back for the result; here
        # none is kept for it.
        request = context.request_context.request
        hang_up = request.scope.get(HANG_UP) if isinstance(request, Request) else None
        # Stopped at once where the client has gone already, as between the two parts of a search.
        remove = None if hang_up is None else hang_up.on_cancel(cancellation.cancel)
        try:
            return await _work_for(context, cancellation, turn, work)
        finally:
            if remove is not None:
                remove()


async def _work_for(
    context: Context[Any, Any], cancellation: Cancellation, turn: Turn, work: Callable[[Tell], T]
) -> T:
    loop = asyncio.get_running_loop()
    sender, receiver = anyio.create_memory_object_stream[_Told](_MOST_REPORTS)
    seconds = turn.seconds if isinstance(turn, InLine) else None
    is_late = threading.Event()

    def send(told: _Told) -> None:
        try:
            sender.send_nowait(told)
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return

    def tell(doing: str, done: float | None = None, total: float | None = None) -> None:
        cancellation.check()
        # From whatever thread: those that methods start are no workers of anyio.
        loop.call_soon_threadsafe(send, _Told(doing, done, total))

    def on_place(place: int) -> None:
        loop.call_soon_threadsafe(send, _Told(f"waiting, place {place} in line", rise=_PLACE))

    def stop_late() -> None:
        is_late.set()
        cancellation.cancel()

    def job() -> _Outcome:
        limit = None
        if seconds is not None:
            limit = threading.Timer(seconds, stop_late)
            limit.daemon = True
            limit.start()
        try:
            with cancellable(cancellation):
                cancellation.check()
                return _Outcome(work(tell))
        except (Exception, Cancelled) as error:
            return _Outcome(error=error)
        finally:
            if limit is not None:
                limit.cancel()

    outcome = _Outcome()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_tell_client, context, receiver)
            with anyio.CancelScope() as waiting:
                remove = cancellation.on_cancel(lambda: loop.call_soon_threadsafe(waiting.cancel))
                outcome = _Outcome(error=Cancelled())
                try:
                    outcome = await turn.run(job, on_place)
                except Exception as error:
                    # Of the line, which is full: not to be wrapped in a group of exceptions.
                    outcome = _Outcome(error=error)
                finally:
                    remove()
            # Nothing is told to a client that has gone, which would never take it.
            if cancellation.is_cancelled:
                group.cancel_scope.cancel()
            sender.close()
    except BaseException:
        # The client has cancelled the call, or nothing more can be told to it.
        cancellation.cancel()
        raise
    if isinstance(outcome.error, Cancelled):
        if is_late.is_set():
            raise ConfigError(f"stopped after the limit of {seconds:g} s a call")
        raise ToolError("stopped")
    if outcome.error is not None:
        raise outcome.error
    result: T = outcome.value
    return result


async def _tell_client(context: Context[Any, Any], receiver: MemoryObjectReceiveStream[_Told]) -> None:
    last: float | None = None
    async with receiver:
        async for told in receiver:
            uncounted = 0.0 if last is None else last + told.rise
            progress = uncounted if told.done is None else told.done
            # The protocol wants it to rise.
            if last is None or progress > last:
                await context.report_progress(progress, told.total, told.doing)
                last = progress
