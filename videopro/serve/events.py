"""What happens to a question, in order: kept from the first event, so that whoever comes later, or comes
back, sees all of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

Event = dict[str, Any]
"""Has a "type": see `videopro.methods.events`; here "queued" and "progress" too."""


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
