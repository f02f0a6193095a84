"""A call of a client: it works on a thread in its turn, reports its progress, and stops the work when it
ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from starlette.requests import Request

from videopro.errors import Cancellation, Cancelled, ConfigError, cancellable
from videopro.modules.tools import Tell
from videopro.serve.guards import HANG_UP
from videopro.serve.line import FairLine

T = TypeVar("T")
_STEP, _PLACE = 1.0, 0.001
"""By how much the progress of a call rises with what is not counted, since it has to rise. Little for a new
place in line: what is counted afterwards, such as clips, begins at 0."""


_Told = tuple[str, float | None, float | None, float]
"""What is being done, how much of it is done, of how much, and by how much the progress rises."""


@dataclass(frozen=True)
class Turn:
    """When a call is worked on: in turn with those of other clients in a line."""

    line: FairLine
    client: str = ""
    seconds: float | None = None
    """Time limit of the work once it has begun; None: none."""


class Calls:
    """The calls of a server that are not answered yet."""

    def __init__(self) -> None:
        self._open: set[Cancellation] = set()

    @contextmanager
    def one(self, context: Context[Any, Any]) -> Iterator[Cancellation]:
        """A call, which is cancelled when its client hangs up."""
        cancellation = Cancellation()
        # A client of 2025 says nothing when it goes, and the protocol lets it come back for the result; here
        # none is kept for it.
        request = context.request_context.request
        hang_up = request.scope.get(HANG_UP) if isinstance(request, Request) else None
        # Cancelled at once where the client has gone already, as between the two parts of a search.
        remove = None if hang_up is None else hang_up.on_cancel(cancellation.cancel)
        self._open.add(cancellation)
        try:
            yield cancellation
        finally:
            self._open.discard(cancellation)
            if remove is not None:
                remove()

    def stop_all(self) -> None:
        """Stop all of them: the server ends."""
        for cancellation in list(self._open):
            cancellation.cancel()


async def work_for(context: Context[Any, Any], calls: Calls, turn: Turn, work: Callable[[Tell], T]) -> T:
    """The result of `work`, which runs on a thread when its turn comes; its place is reported until then. If
    the client cancels the call or goes, the work is cancelled and not waited for. Raises what the work
    raised, and Problem if too many wait."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[_Told | None] = asyncio.Queue()
    result: asyncio.Future[T] = loop.create_future()
    is_late = threading.Event()

    def soon(function: Callable[..., object], *arguments: Any) -> None:
        # From whatever thread: those that methods start know no loop.
        with suppress(RuntimeError):  # The server has ended, and its loop is closed.
            loop.call_soon_threadsafe(function, *arguments)

    def settle(set_result: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            set_result(value)

    with calls.one(context) as cancellation:

        def tell(doing: str, done: float | None = None, total: float | None = None) -> None:
            cancellation.check()
            soon(told.put_nowait, (doing, done, total, _STEP))

        def stop_late() -> None:
            is_late.set()
            cancellation.cancel()

        def job() -> None:
            limit = threading.Timer(turn.seconds or 0, stop_late)
            limit.daemon = True
            if turn.seconds is not None:
                limit.start()
            try:
                with cancellable(cancellation):
                    cancellation.check()
                    outcome = partial(settle, result.set_result, work(tell))
            except Cancelled:
                return  # The cancellation reports it.
            except Exception as error:
                outcome = partial(settle, result.set_exception, error)
            finally:
                limit.cancel()
            soon(outcome)

        def stop() -> None:
            error: Exception = ToolError("stopped")
            if is_late.is_set():
                error = ConfigError(f"stopped after the limit of {turn.seconds:g} s a call")
            soon(settle, result.set_exception, error)

        teller = loop.create_task(_tell_client(context, told))
        remove = cancellation.on_cancel(stop)
        ticket = None
        try:
            ticket = turn.line.enter(
                turn.client,
                job,
                lambda place: soon(told.put_nowait, (f"waiting, place {place} in line", None, None, _PLACE)),
            )
            try:
                return await result
            finally:
                # Reports come before the result; but a client that has gone would never take them.
                if not cancellation.is_cancelled and not result.cancelled():
                    told.put_nowait(None)
                    await teller
        except asyncio.CancelledError:
            cancellation.cancel()
            raise
        finally:
            remove()
            teller.cancel()
            if ticket is not None:
                turn.line.leave(ticket)


async def _tell_client(context: Context[Any, Any], told: asyncio.Queue[_Told | None]) -> None:
    last: float | None = None
    while (report := await told.get()) is not None:
        doing, done, total, rise = report
        progress = done if done is not None else 0.0 if last is None else last + rise
        # The protocol wants it to rise.
        if last is None or progress > last:
            await context.report_progress(progress, total, doing)
            last = progress
