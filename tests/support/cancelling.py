"""Work in a thread that a test cancels."""

import threading
import time
from collections.abc import Callable
from typing import Any

from videopro.errors import Cancellation, Cancelled, cancellable

SOON = 20.0
"""Seconds within which cancelled work must have ended on a machine that is busy with other tests. What it
really takes, perf/cancelling.py measures."""


class CancelledWork:
    """`work` in a thread of its own. Its result or error is there after `join`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.cancellation = Cancellation()
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with cancellable(self.cancellation):
                self.result = self._work()
        except BaseException as error:
            self.error = error

    def cancel(self) -> float:
        """Cancel it, and wait until its thread has ended with that. Returns the seconds that it took."""
        began = time.monotonic()
        self.cancellation.cancel()
        self.join()
        assert isinstance(self.error, Cancelled), repr(self.error)
        return time.monotonic() - began

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join(SOON)
        assert not self._thread.is_alive(), "the work goes on"


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 3 * SOON
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)
