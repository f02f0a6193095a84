"""Shares wall time among the questions, or units of them, in flight, so that a run's seconds add up to its
time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Stopwatch:
    """The time of one piece of work."""

    share: float = 0.0
    """Its share of the wall time, in seconds: in every moment, 1/n of it while n pieces are in flight."""
    wall: float = 0.0
    """The wall time from its start to its end."""


class SharedClock:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: list[Stopwatch] = []
        self._since = clock()

    @contextmanager
    def running(self) -> Iterator[Stopwatch]:
        """Time a piece of work; the stopwatch is complete when the block ends."""
        watch = Stopwatch()
        with self._lock:
            self._advance()
            self._running.append(watch)
        try:
            yield watch
        finally:
            with self._lock:
                self._advance()
                # By identity: two stopwatches may show equal times.
                self._running = [other for other in self._running if other is not watch]

    def factor(self, watch: Stopwatch) -> float:
        """The share of a running stopwatch in its wall time so far, above 0 and at most 1."""
        with self._lock:
            self._advance()
            return watch.share / watch.wall if watch.wall > 0 else 1.0

    def _advance(self) -> None:
        now = self._clock()
        passed, self._since = now - self._since, now
        for watch in self._running:
            watch.wall += passed
            watch.share += passed / len(self._running)
