"""Remembering module calls: what was computed once for a video is not computed again.

Refinement, the rollouts of a group and sweeps repeat most calls. Knows keys and results, and nothing of
modules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from cachetools import LRUCache

T = TypeVar("T")


class CallCache(Generic[T]):
    """Results by key, the least recently used leaving beyond `max_entries`; thread safe. Two that ask for the
    same at once share one computation. Failures are not remembered.

    Results are handed out as they are: they must not be changed.
    """

    def __init__(self, max_entries: int = 20_000) -> None:
        self._results: LRUCache[Hashable, Future[T]] = LRUCache(max_entries)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable, compute: Callable[[], T]) -> tuple[T, bool]:
        """The result for a key, and whether it was there already."""
        with self._lock:
            future = self._results.get(key)
            if future is None:
                mine: Future[T] = Future()
                self._results[key] = mine
        if future is not None:
            try:
                return future.result(), True
            except _ComputationFailed:
                # Who computed it failed, perhaps for reasons of their own (a budget): try it oneself.
                return compute(), False
        try:
            result = compute()
        except BaseException:
            with self._lock:
                if self._results.get(key) is mine:
                    del self._results[key]
            mine.set_exception(_ComputationFailed())
            raise
        mine.set_result(result)
        return result, False

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._results.clear()


class _ComputationFailed(Exception):
    """The computation that one waited for failed."""
