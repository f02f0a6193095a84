"""The queue in front of the model: a few questions at a time, and clients take turns.

A client with a hundred questions does not block others: the first question of each client goes next. Clients
learn their place whenever it changes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from videopro.serve.problems import Problem

_RETRY_SECONDS = 10


@dataclass(eq=False)
class Ticket:
    """A place in the queue."""

    client: str
    start: Callable[[], None]
    on_position: Callable[[int], None]
    position: int | None = None
    """From 1; None: not reported yet."""


class FairLine:
    """Serves at most `at_once` tickets at a time, each on its own thread; at most `waiting` more wait, or up
    to twice as many for clients without a waiting ticket. Thread-safe."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._most_waiting = waiting
        self._waiting: list[Ticket] = []
        """In the order of their turns."""
        self._running: set[Ticket] = set()
        self._changed = threading.Condition()
        # Callbacks in the order of the changes, and never while the line is locked.
        self._telling = threading.RLock()

    @property
    def running(self) -> int:
        """Number of running tickets."""
        with self._changed:
            return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of waiting tickets."""
        with self._changed:
            return len(self._waiting)

    def enter(
        self,
        client: str,
        start: Callable[[], None],
        on_position: Callable[[int], None] = lambda position: None,
    ) -> Ticket:
        """Join the queue. `start` runs on its own thread when its turn comes, and frees the place when it
        returns; `on_position` gets the place, from 1, while the ticket waits. Raises Problem if the queue is
        full."""
        ticket = Ticket(client, start, on_position)
        with self._changed:
            is_free = len(self._running) < self._at_once
            # One client may fill the line, but not keep the others out of it.
            is_waiting = any(each.client == client for each in self._waiting)
            most = self._most_waiting if is_waiting else 2 * self._most_waiting
            if not is_free and len(self._waiting) >= most:
                message = f"the queue is full ({len(self._waiting)} questions); try again later"
                raise Problem(429, message, code="queue_full", retry_after=_RETRY_SECONDS)
            self._waiting.insert(self._place_of(client), ticket)
        self._go_on()
        return ticket

    def leave(self, ticket: Ticket) -> bool:
        """Leave the queue. Returns False if the ticket is already running."""
        with self._changed:
            if ticket not in self._waiting:
                return False
            self._waiting.remove(ticket)
        self._go_on()
        return True

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no ticket is running. Returns whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _go_on(self) -> None:
        """Start whose turn it is, and tell the others their new places."""
        with self._telling:
            with self._changed:
                started = self._waiting[: self._at_once - len(self._running)]
                del self._waiting[: len(started)]
                self._running.update(started)
                moved = []
                for position, ticket in enumerate(self._waiting, start=1):
                    if ticket.position != position:
                        ticket.position = position
                        moved.append((ticket, position))
            for ticket in started:
                # A daemon: a server that is stopped does not wait for a model's last step.
                threading.Thread(target=self._serve, args=(ticket,), name="question", daemon=True).start()
            for ticket, position in moved:
                ticket.on_position(position)

    def _place_of(self, client: str) -> int:
        """Where the next ticket of a client goes: behind the first of each client if it is its first, behind
        their second if it is its second."""
        own = sum(each.client == client for each in self._waiting)
        before: Counter[str] = Counter()
        place = 0
        for number, each in enumerate(self._waiting, start=1):
            if before[each.client] <= own:
                place = number
            before[each.client] += 1
        return place

    def _serve(self, ticket: Ticket) -> None:
        try:
            ticket.start()
        finally:
            with self._changed:
                self._running.discard(ticket)
                self._changed.notify_all()
            self._go_on()
