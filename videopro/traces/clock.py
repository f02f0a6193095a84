"""Shares wall time among the questions, or units of them, in flight, so that a run's seconds add up to its
time."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """The time of one piece of work."""

    share: float = 0.0
    """Its share of the wall time, in seconds: in every moment, 1/n of it while n pieces are in flight."""
    wall: float = 0.0
    """The wall time from its start to its end."""
    _course: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)], repr=False)
    """`wall` and `share` whenever the number of pieces in flight changed."""
    _spent: float = 0.0
    """The wall time whose share was asked for."""

    def _share_until(self, wall: float) -> float:
        index = min(max(bisect_left(self._course, (wall, 0.0)), 1), len(self._course) - 1)
        (start, low), (end, high) = self._course[index - 1], self._course[index]
        return low + (high - low) * (wall - start) / (end - start)


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

    def factor(self, watch: Stopwatch, seconds: float) -> float:
        """The factor, above 0 and at most 1, that turns the next `seconds` of a running stopwatch into their
        share: seconds after those of earlier calls, so that all shares add up to the stopwatch's."""
        with self._lock:
            self._advance()
            begin, end = watch._spent, min(watch._spent + seconds, watch.wall)
            watch._spent = end
            if end <= begin:  # more seconds than have passed, by rounding
                return watch.share / watch.wall if watch.wall > 0 else 1.0
            return (watch._share_until(end) - watch._share_until(begin)) / (end - begin)

    def _advance(self) -> None:
        now = self._clock()
        passed, self._since = now - self._since, now
        for watch in self._running:
            watch.wall += passed
            watch.share += passed / len(self._running)
            if passed > 0:
                # Kept because calls report their seconds when they end: what was in flight while they ran is
                # looked up here.
                watch._course.append((watch.wall, watch.share))
