"""A walk over things that several processes work through at the same time, without a queue between them: what
another process is at is put off, and taken up again when nothing else is left.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

from videopro.errors import ConfigError

T = TypeVar("T")

# Seconds between two looks at what other processes are at.
POLL_SECONDS = 0.5


class Walk(Generic[T]):
    """Hands items out to the threads of this process, in their order. Once another process was at one of
    them, they come in a random order, so that the two do not wait for each other at every item.
    Thread-safe."""

    def __init__(self, items: Sequence[T]) -> None:
        self._left = list(items)
        self._put_off: list[T] = []
        self._is_contended = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def take(self) -> T | None:
        """The next item to work on; None when none is left, or after `stop`. While other processes are
        at all that are left, it waits, and returns one of those for another look."""
        while not self._stopped.is_set():
            with self._lock:
                if self._left:
                    return self._left.pop(random.randrange(len(self._left)) if self._is_contended else 0)
                if not self._put_off:
                    return None
            if not self._stopped.wait(POLL_SECONDS):
                with self._lock:
                    self._left, self._put_off = self._left + self._put_off, []
        return None

    def put_off(self, item: T) -> None:
        """Another process is at it: come back later, to see whether it is done."""
        with self._lock:
            self._is_contended = True
            self._put_off.append(item)

    def stop(self) -> None:
        """Hand out nothing more."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()


def shard(items: Sequence[T], part: str) -> list[T]:
    """Part i of n of the items, for `part` "i/n", counted from 1: every n-th, so that the parts together are
    all of them, and no two share one. Raises ConfigError for another form."""
    number, slash, count = part.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ConfigError(f"shard is {part!r}; write i/n with i from 1 to n, such as 2/8")
    return list(items[int(number) - 1 :: int(count)])
