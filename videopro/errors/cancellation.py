"""Stopping work that nobody waits for any more: whoever asked gave up, or hung up.

    cancellation = Cancellation()
    with cancellable(cancellation):       # in the thread that works
        ...                               # `check_cancelled()` between parts raises Cancelled
    cancellation.cancel()                 # in any other thread

What waits for something outside, such as a server or a child process, registers a callback that ends the wait
(`Cancellation.on_cancel`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Cancelled(BaseException):
    """The work was cancelled. No Exception, as KeyboardInterrupt is none: a method that records what a call
    raised must not record this and go on."""


class Cancellation:
    """Whether some work is cancelled, for the threads that do it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], None]] = {}

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel the work. Returns after the callbacks, which run in this thread; the work ends at its next
        check. Again: nothing."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raise Cancelled if it was cancelled."""
        if self._event.is_set():
            raise Cancelled

    def wait(self, seconds: float) -> bool:
        """Wait until it is cancelled, at most so long. Returns whether it is."""
        return self._event.wait(seconds)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, which must not raise, when it is cancelled; at once if it is. Returns what takes
        the callback back, which may then still be running in another thread."""
        key = object()
        with self._lock:
            if not self._event.is_set():
                self._callbacks[key] = callback
                return lambda: self._remove(key)
        callback()
        return lambda: None

    def _remove(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancellable(cancellation: Cancellation | None) -> Iterator[None]:
    """What this thread does in the block belongs to the work of `cancellation`; None: to none."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


def current_cancellation() -> Cancellation | None:
    """The cancellation of the work that this thread does; None: it cannot be cancelled."""
    return _current.get()


def check_cancelled() -> None:
    """Raise Cancelled if the work that this thread does was cancelled."""
    cancellation = _current.get()
    if cancellation is not None:
        cancellation.check()


def carrying_cancellation(function: Callable[P, T]) -> Callable[P, T]:
    """The function, as a part of this thread's work wherever it runs: a pool's threads inherit no context."""
    cancellation = _current.get()

    @wraps(function)
    def run(*args: P.args, **keywords: P.kwargs) -> T:
        with cancellable(cancellation):
            check_cancelled()
            return function(*args, **keywords)

    return run
