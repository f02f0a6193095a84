"""The line in front of the model: a few questions at a time, the others in turn, one client after another.

A client with a hundred questions does not keep the others waiting: from client to client the first question
of each goes next. Everybody is told their place whenever it changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from videopro.serve.problems import Problem

_RETRY_SECONDS = 10


@dataclass(eq=False)
class Ticket:
    """A place in the line."""

    client: str
    start: Callable[[], None]
    on_position: Callable[[int], None]
    position: int | None = None
    """From 1; None: not told yet, or not waiting any more."""


class FairLine:
    """At most `at_once` tickets are served at a time, each on a thread of its own, and at most `waiting` more
    wait; up to twice as many, if they are of clients of whom none waits. Thread-safe."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._most_waiting = waiting
        # Clients in the order of their turns, each with its tickets.
        self._clients: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._running: set[Ticket] = set()
        self._changed = threading.Condition()
        # Callbacks in the order of the changes, and never while the line is locked.
        self._telling = threading.RLock()

    @property
    def running(self) -> int:
        """How many are served now."""
        with self._changed:
            return len(self._running)

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._changed:
            return self._count()

    def _count(self) -> int:
        return sum(len(tickets) for tickets in self._clients.values())

    def enter(
        self,
        client: str,
        start: Callable[[], None],
        on_position: Callable[[int], None] = lambda position: None,
    ) -> Ticket:
        """Take a place. `start` is called on a thread of its own when it is its turn, and the place is free
        again when it returns; `on_position` is told the place, from 1, while it waits. Raises Problem if too
        many wait."""
        ticket = Ticket(client, start, on_position)
        with self._changed:
            is_free = len(self._running) < self._at_once
            # One client may fill the line, but not keep the others out of it.
            is_waiting = client in self._clients
            most = self._most_waiting if is_waiting else 2 * self._most_waiting
            if not is_free and self._count() >= most:
                raise Problem(
                    429,
                    f"{self._count()} questions are waiting already; try again in a while",
                    code="queue_full",
                    retry_after=_RETRY_SECONDS,
                )
            self._clients.setdefault(client, deque()).append(ticket)
        self._go_on()
        return ticket

    def leave(self, ticket: Ticket) -> bool:
        """Give up a place. Returns False if its turn has come already."""
        with self._changed:
            tickets = self._clients.get(ticket.client)
            if tickets is None or ticket not in tickets:
                return False
            tickets.remove(ticket)
            if not tickets:
                del self._clients[ticket.client]
        self._go_on()
        return True

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until nobody is served. Returns whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _go_on(self) -> None:
        """Start whose turn it is, and tell the others their new places."""
        with self._telling:
            with self._changed:
                started = []
                while self._clients and len(self._running) < self._at_once:
                    ticket = self._next()
                    self._running.add(ticket)
                    started.append(ticket)
                moved = []
                for position, ticket in enumerate(self._in_turn(), start=1):
                    if ticket.position != position:
                        ticket.position = position
                        moved.append((ticket, position))
            for ticket in started:
                # A daemon: a server that is stopped does not wait for a model's last step.
                threading.Thread(target=self._serve, args=(ticket,), name="question", daemon=True).start()
            for ticket, position in moved:
                ticket.on_position(position)

    def _next(self) -> Ticket:
        client, tickets = next(iter(self._clients.items()))
        ticket = tickets.popleft()
        if tickets:
            self._clients.move_to_end(client)
        else:
            del self._clients[client]
        ticket.position = None
        return ticket

    def _in_turn(self) -> Iterator[Ticket]:
        """Those who wait, in the order in which they will be served."""
        turns = [list(tickets) for tickets in self._clients.values()]
        for turn in range(max(map(len, turns), default=0)):
            for tickets in turns:
                if turn < len(tickets):
                    yield tickets[turn]

    def _serve(self, ticket: Ticket) -> None:
        try:
            ticket.start()
        finally:
            with self._changed:
                self._running.discard(ticket)
                self._changed.notify_all()
            self._go_on()
