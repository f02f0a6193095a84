"""Events over HTTP (server-sent events), and noticing that a client hung up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import orjson
from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

_KEEP_ALIVE_SECONDS = 15.0
"""So often a comment is sent where nothing happens: proxies would close the connection."""
_KEEP_ALIVE = b": waiting\n\n"


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
