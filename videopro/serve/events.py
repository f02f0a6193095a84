"""What happens to a question, in order: kept from the first event, so that a client that connects later, or
again, sees all of it; as rounds, for the page of a question that has no trace yet; and as server-sent events.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import orjson
from starlette.responses import StreamingResponse

from videopro.methods import EventObserver
from videopro.traces import AGENT, Call, Execution, Result, Round, Step

Event = dict[str, Any]
"""Has a "type": see `videopro.methods.events`; here "queued" and "progress" too."""

LAST = ("answer", "error")
"""Types of events after which a question has no other."""
_KEEP_ALIVE_SECONDS = 15.0
"""So often a comment is sent where nothing happens: proxies would close the connection."""


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

    async def follow(self, first: int = 0) -> AsyncIterator[tuple[int, Event | None]]:
        """The events with their numbers, from the number `first`, until the end; None for a while in which
        nothing happens."""
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
                    with anyio.move_on_after(_KEEP_ALIVE_SECONDS) as pause:
                        await waker.wait()
                    if pause.cancelled_caught:
                        yield first, None
        finally:
            with self._lock:
                self._wakers.pop(waker, None)

    async def lines(self, first: int = 0) -> AsyncIterator[bytes]:
        """The same as server-sent events. Their ids are the numbers, after which a reconnecting client
        continues."""
        async for number, event in self.follow(first):
            yield event_line(event, id=number)

    def _wake(self) -> None:
        with self._lock:
            wakers = list(self._wakers.items())
        for waker, loop in wakers:
            with suppress(RuntimeError):  # The loop of a client that is gone is closed.
                loop.call_soon_threadsafe(waker.set)


def event_line(data: object, *, id: int | None = None) -> bytes:
    """An event with JSON in it; None: a comment, which keeps the connection open."""
    if data is None:
        return b": waiting\n\n"
    text = data.encode() if isinstance(data, str) else orjson.dumps(data)
    number = b"" if id is None else b"id: %d\n" % id
    return number + b"data: " + text + b"\n\n"


class EventStream(StreamingResponse):
    """Sends lines as they come."""

    media_type = "text/event-stream"

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        # nginx would otherwise hold events back until it has a page of them.
        super().__init__(lines, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


_DIRECT = "native"


class RoundsSoFar(EventObserver):
    """Emits the events of a question, and keeps its rounds for those who ask in between. Thread-safe."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        super().__init__(emit)
        self._keeping = threading.Lock()
        self._rounds: list[Round] = []
        self._is_open = False
        """Whether the last round's program or agent is at work."""

    def result(self) -> Result:
        """The result so far: no answer counts yet."""
        with self._keeping:
            return Result(rounds=tuple(self._rounds))

    def on_reply(self, round: Round) -> None:
        """A round begins."""
        with self._keeping:
            self._rounds.append(round)
            self._is_open = True
        super().on_reply(round)

    def on_call(self, call: Call) -> None:
        """A call of the last round; one of no program is the model's direct answer."""
        self._put(_DIRECT, lambda execution: replace(execution, calls=(*execution.calls, call)))
        super().on_call(call)

    def on_execution(self, execution: Execution) -> None:
        """The last round ended."""
        self._put(_DIRECT, lambda _: execution, is_last=True)
        super().on_execution(execution)

    def on_step(self, step: Step) -> None:
        """A step of an agent, all of whose steps are one round."""
        self._put(AGENT, lambda execution: replace(execution, steps=(*execution.steps, step)))
        super().on_step(step)

    def _put(self, kind: str, change: Callable[[Execution], Execution], *, is_last: bool = False) -> None:
        """Change what is known of the open round; without one, a round of this kind is opened."""
        with self._keeping:
            if not self._is_open:
                self._rounds.append(Round(kind, ""))
            self._is_open = not is_last
            open_round = self._rounds[-1]
            # Rounds are never changed in place: a page that asks in between has the old one.
            self._rounds[-1] = replace(
                open_round, execution=change(open_round.execution or Execution("empty"))
            )
