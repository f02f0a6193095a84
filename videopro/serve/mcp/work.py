"""A long call of a client: it works on a thread, its progress is told, and its end stops the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from videopro.errors import Cancellation, Cancelled, cancellable

T = TypeVar("T")
# Told while nobody reads it, of a question of an hour.
_MOST_TOLD = 10_000


class Tell(Protocol):
    """Tells what is being done."""

    def __call__(self, doing: str, done: float | None = None, total: float | None = None) -> None:
        """`done` of `total`; None: how much there is to do is not known."""


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


async def work_for(
    context: Context[Any, Any], limiter: anyio.CapacityLimiter, work: Callable[[Tell], T]
) -> T:
    """The result of `work`, which runs on a thread. If the client cancels the call or goes, the work is
    cancelled and not waited for. Raises what the work raised."""
    cancellation = Cancellation()
    loop = asyncio.get_running_loop()
    sender, receiver = anyio.create_memory_object_stream[tuple[str, float | None, float | None]](_MOST_TOLD)

    def send(*progress: Any) -> None:
        try:
            sender.send_nowait(progress)
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return

    def tell(doing: str, done: float | None = None, total: float | None = None) -> None:
        cancellation.check()
        # From whatever thread: those that methods start are no workers of anyio.
        loop.call_soon_threadsafe(send, doing, done, total)

    def job() -> _Outcome:
        try:
            with cancellable(cancellation):
                return _Outcome(work(tell))
        except (Exception, Cancelled) as error:
            return _Outcome(error=error)

    outcome = _Outcome()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_tell_client, context, receiver)
            outcome = await to_thread.run_sync(job, abandon_on_cancel=True, limiter=limiter)
            sender.close()
    except anyio.get_cancelled_exc_class():
        cancellation.cancel()
        raise
    if isinstance(outcome.error, Cancelled):
        raise ToolError("stopped")
    if outcome.error is not None:
        raise outcome.error
    result: T = outcome.value
    return result


async def _tell_client(
    context: Context[Any, Any],
    receiver: MemoryObjectReceiveStream[tuple[str, float | None, float | None]],
) -> None:
    last = -1.0
    async with receiver:
        async for doing, done, total in receiver:
            progress = last + 1 if done is None else done
            # The protocol wants it to rise.
            if progress > last:
                await context.report_progress(progress, total, doing)
                last = progress
