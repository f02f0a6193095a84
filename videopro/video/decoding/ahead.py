"""Makes items in a thread ahead of their use, so that decoding and the use of what was decoded overlap."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from typing import TypeVar

from videopro.errors import Cancellation, cancellable, when_cancelled

T = TypeVar("T")


def made_ahead(
    items: Generator[T, None, None], most: int, *, name: str = "ahead"
) -> Generator[T, None, None]:
    """The items, made by a thread while the consumer works: at most `most` of them wait, and one more is
    being made. Their exceptions are raised here. Once this generator is closed, or the consumer's work is
    cancelled, the thread ends at its next check, and no thread of it is left when `close` returns."""
    ready: deque[T] = deque()
    changed = threading.Condition()
    failure: list[BaseException] = []
    is_complete = False
    # The thread's own: it ends the making of an item in the middle, also where the consumer itself fails.
    stopping = Cancellation()

    def notify() -> None:
        with changed:
            changed.notify_all()

    def make() -> None:
        nonlocal is_complete
        try:
            with cancellable(stopping):
                try:
                    for item in items:
                        with changed:
                            changed.wait_for(lambda: len(ready) < most or stopping.is_cancelled)
                            stopping.check()
                            ready.append(item)
                            changed.notify_all()
                finally:
                    items.close()
        except BaseException as error:
            failure.append(error)
        with changed:
            is_complete = True
            changed.notify_all()

    def stop() -> None:
        stopping.cancel()
        notify()

    thread = threading.Thread(target=make, daemon=True, name=name)
    with when_cancelled(stop):
        thread.start()
        try:
            while True:
                with changed:
                    changed.wait_for(lambda: ready or is_complete or stopping.is_cancelled)
                    stopping.check()
                    if not ready:
                        break
                    item = ready.popleft()
                    changed.notify_all()
                yield item
            if failure:
                raise failure[0]
        finally:
            stop()
            thread.join()
