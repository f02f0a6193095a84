"""What happens to a question, in order: kept from the first event, so that whoever comes later, or comes
back, sees all of it; sent over HTTP (server-sent events), until a client hangs up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import orjson
from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

Event = dict[str, Any]
"""Has a "type": see `videopro.methods.events`; here "queued" and "progress" too."""

_KEEP_ALIVE_SECONDS = 15.0
"""So often a comment is sent where nothing happens: proxies would close the connection."""
_KEEP_ALIVE = b": waiting\n\n"


class EventLog:
    """Events that worker threads add and that any number of clients follow. Thread-safe."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._is_closed = False
        self._lock = threading.Lock()
        self._wakers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def is_closed(self) -> bool:
        """Whether no event will follow."""
        with self._lock:
            return self._is_closed

    def add(self, event: Event) -> None:
        """Add an event; after the end none is added."""
        with self._lock:
            if self._is_closed:
                return
            self._events.append(event)
        self._wake()

    def close(self) -> None:
        """No event will follow."""
        with self._lock:
            self._is_closed = True
        self._wake()

    def all(self) -> list[Event]:
        """The events so far."""
        with self._lock:
            return list(self._events)

    async def follow(self, first: int = 0) -> AsyncIterator[tuple[int, Event]]:
        """The events with their numbers, from the number `first`, until the end."""
        waker = asyncio.Event()
        with self._lock:
            self._wakers[waker] = asyncio.get_running_loop()
        try:
            while True:
                waker.clear()
                with self._lock:
                    new, is_closed = self._events[first:], self._is_closed
                for event in new:
                    yield first, event
                    first += 1
                if is_closed and not new:
                    return
                if not new:
                    await waker.wait()
        finally:
            with self._lock:
                self._wakers.pop(waker, None)

    def _wake(self) -> None:
        with self._lock:
            wakers = list(self._wakers.items())
        for waker, loop in wakers:
            with suppress(RuntimeError):  # The loop of a client that is gone is closed.
                loop.call_soon_threadsafe(waker.set)


def event_line(data: object, *, id: int | None = None) -> bytes:
    """An event with JSON in it."""
    text = data.encode() if isinstance(data, str) else orjson.dumps(data)
    number = b"" if id is None else b"id: %d\n" % id
    return number + b"data: " + text + b"\n\n"


class EventStream(Response):
    """Sends events as they come. `on_hang_up` is called if the client leaves before the last one."""

    media_type = "text/event-stream"

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        *,
        on_hang_up: Callable[[], None] = lambda: None,
    ) -> None:
        # nginx would otherwise hold events back until it has a page of them.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._lines = lines
        self._on_hang_up = on_hang_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        lock = anyio.Lock()

        async def sent(message: Message) -> None:
            try:
                await send(message)
            except OSError as error:
                raise ClientDisconnect from error

        async def write(line: bytes, *, more: bool = True) -> None:
            async with lock:
                await sent({"type": "http.response.body", "body": line, "more_body": more})

        async def keep_alive() -> None:
            while True:
                await anyio.sleep(_KEEP_ALIVE_SECONDS)
                await write(_KEEP_ALIVE)

        async def work() -> None:
            await sent({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with anyio.create_task_group() as group:
                group.start_soon(keep_alive)
                async for line in self._lines:
                    await write(line)
                group.cancel_scope.cancel()
            await write(b"", more=False)

        if not await until_hang_up(work, receive):
            # It stops threads and closes connections.
            await to_thread.run_sync(self._on_hang_up)


async def until_hang_up(work: Callable[[], Awaitable[object]], receive: Receive) -> bool:
    """Do some work, and give it up when the client hangs up. Returns whether it was done. Raises what the
    work raises."""
    is_done, error = False, None
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            await work()
            is_done = True
        except ClientDisconnect:  # The connection broke while something was sent.
            pass
        except Exception as failure:
            # A group would wrap it.
            error = failure
        group.cancel_scope.cancel()
    if error is not None:
        raise error
    return is_done
