"""A cache of module calls: refinement, the rollouts of a group and sweeps repeat most calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from cachetools import LRUCache

from videopro.errors import result_of

T = TypeVar("T")


class CallCache(Generic[T]):
    """An LRU cache of at most `max_entries` results; thread-safe. Concurrent requests for the same key share
    one computation. Failures are not cached.

    Results are returned without copying and must not be modified.
    """

    def __init__(self, max_entries: int = 20_000) -> None:
        self._results: LRUCache[Hashable, Future[T]] = LRUCache(max_entries)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable, compute: Callable[[], T]) -> tuple[T, bool]:
        """The result for a key, and whether it was cached. An exception of `compute` is raised as it is."""
        with self._lock:
            future = self._results.get(key)
            if future is None:
                # Put there under the lock and filled without it: equal calls wait for this one, others go on.
                new: Future[T] = Future()
                self._results[key] = new
        if future is not None:
            try:
                return result_of(future), True
            except _ComputationFailed:
                # The other caller failed, perhaps for a reason of its own, such as its budget: try here.
                return compute(), False
        try:
            result = compute()
        except BaseException:
            with self._lock:
                # It may have been evicted, and the key computed by another caller since.
                if self._results.get(key) is new:
                    del self._results[key]
            # Not the error itself: it may hold frames, or be of this caller's budget.
            new.set_exception(_ComputationFailed())
            raise
        new.set_result(result)
        return result, False

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._results.clear()


class _ComputationFailed(Exception):
    """The computation that this caller waited for has failed."""
