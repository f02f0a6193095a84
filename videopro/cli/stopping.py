"""SIGTERM and SIGHUP end a command as Ctrl-C does: by an exception, so that it stops its processes, leaves
no partial files, and says how to resume.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

from videopro.errors import signal_name

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Sent by schedulers, service managers and closing terminals; Python handles Ctrl-C itself."""
_ALL = (signal.SIGINT, *ENDING)


class TerminationSignal(KeyboardInterrupt):
    """A signal that ends the command; caught wherever Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal_name(number)}")
        self.number = number


@contextmanager
def handle_termination() -> Iterator[list[int]]:
    """Raise `TerminationSignal` in the main thread for the signals that arrive within the block. Yields the
    list of signals received, in order: an exception on the way out (writing to a terminal that is gone) may
    hide `TerminationSignal`.

    Ignored signals stay ignored (nohup). Does nothing in other threads than the main one.
    """
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # Before the exception, which other code may swallow.
        received.append(number)
        raise TerminationSignal(number)

    # Python allows handlers in the main thread only; tests and notebooks run commands in others.
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    handled = [number for number in ENDING if before[number] != signal.SIG_IGN]
    for number in handled:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number in handled:
            signal.signal(number, before[number])


@contextmanager
def defer_signals() -> Iterator[None]:
    """Block Ctrl-C and the signals within the block. A process started there blocks them too, until it calls
    `leave_signals_to_parent`."""
    # If it were started with the first process, it would let them through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_parent() -> None:
    """For a process whose parent decides when it ends: signals sent to the whole process group, Ctrl-C's
    included, do nothing here. Programs that it starts handle signals as usual."""
    for number in _ALL:
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ALL)
