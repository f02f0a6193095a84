"""Stopping work whose result is no longer needed: the client gave up or disconnected.

    cancellation = Cancellation()
    with cancellable(cancellation):       # in the thread that works
        ...                               # `check_cancelled()` between parts raises Cancelled
    cancellation.cancel()                 # in any other thread

Code that waits for something external, such as a server or a child process, registers a callback that ends
the wait (`Cancellation.on_cancel`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SLICE = 0.1
"""Seconds between two checks of a wait for cancellation."""


class Lock(Protocol):
    """A lock or a semaphore of `threading`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for it, at most `timeout` seconds; -1: without a limit."""

    def release(self) -> None:
        """Release it."""


class Cancelled(BaseException):
    """The work was cancelled. Like KeyboardInterrupt, it is not an Exception: a method that records the
    errors of calls must not record this one and continue."""


class Cancellation:
    """The cancellation of some work, shared by the threads that do it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        # Held while callbacks run, so that none runs any more once it is taken back; reentrant, as a callback
        # may take back others.
        self._lock = threading.RLock()
        self._callbacks: dict[object, Callable[[], object]] = {}

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Cancel the work. Returns after the callbacks, which run in this thread; the work ends at its next
        check. Calling it again has no effect."""
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
        """Wait until it is cancelled, at most `seconds`. Returns whether it is."""
        return self._event.wait(seconds)

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback`, which must neither raise nor wait, on cancellation, or at once if already
        cancelled. Returns a function that removes the callback."""
        key = object()
        with self._lock:
            if self._event.is_set():
                callback()
            else:
                self._callbacks[key] = callback
        return lambda: self._remove(key)

    def _remove(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancellable(cancellation: Cancellation | None) -> Iterator[None]:
    """Make this thread's work in the block cancellable by `cancellation`; None: not cancellable."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


def current_cancellation() -> Cancellation | None:
    """The cancellation of this thread's work; None: it cannot be cancelled."""
    return _current.get()


def check_cancelled() -> None:
    """Raise Cancelled if this thread's work was cancelled."""
    cancellation = _current.get()
    if cancellation is not None:
        cancellation.check()


def carrying_cancellation(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function as part of this thread's work wherever it runs: a pool's threads inherit no context."""
    cancellation = _current.get()

    @wraps(function)
    def run(*args: P.args, **keywords: P.kwargs) -> T:
        with cancellable(cancellation):
            return function(*args, **keywords)

    return run


# ---- waits that end when the work is cancelled -----------------------------------------------------------


@contextmanager
def when_cancelled(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback`, which must neither raise nor wait, if this thread's work is cancelled within the
    block, to end a wait in it."""
    cancellation = _current.get()
    remove = cancellation.on_cancel(callback) if cancellation is not None else None
    try:
        yield
    finally:
        if remove is not None:
            remove()


@contextmanager
def acquired(lock: Lock) -> Iterator[None]:
    """Like `with lock`, but raises Cancelled if this thread's work is cancelled before the lock is free."""
    wait_until(lambda seconds: lock.acquire() if seconds is None else lock.acquire(timeout=seconds))
    try:
        yield
    finally:
        lock.release()


def result_of(future: Future[T]) -> T:
    """The future's result; raises Cancelled if this thread's work is cancelled before it is done."""
    wait_until(lambda seconds: bool(wait([future], seconds).done))
    return future.result()


def wait_until(attempt: Callable[[float | None], bool]) -> None:
    """Wait until `attempt` returns true; it waits for at most its argument in seconds, None: without a limit.
    Raises Cancelled if this thread's work is cancelled first."""
    cancellation = _current.get()
    if cancellation is None:
        attempt(None)
        return
    while not attempt(_SLICE):
        cancellation.check()
