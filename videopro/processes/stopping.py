"""SIGTERM and SIGHUP end a command as Ctrl-C does: from within, so that it stops its processes, leaves
nothing half-written, and says how to go on.

Knows signals; nothing of any command.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

from videopro.processes.signals import signal_name

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What a scheduler, a service manager or a terminal that is closed sends; Ctrl-C is Python's own matter."""
_ALL = (signal.SIGINT, *ENDING)


class TerminationSignal(KeyboardInterrupt):
    """A signal that ends the command; caught wherever Ctrl-C is."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal_name(number)}")
        self.number = number


@contextmanager
def handle_termination() -> Iterator[list[int]]:
    """Within the block the signals raise `TerminationSignal` in the main thread. Gives the list of those
    that came, in order: an exception on the way out (a terminal that is gone cannot be written to) may hide
    `TerminationSignal`.

    A signal that is ignored stays so (nohup). In another thread than the main one nothing is changed.
    """
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise TerminationSignal(number)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {one: signal.getsignal(one) for one in ENDING}
    taken = [one for one in ENDING if before[one] != signal.SIG_IGN]
    for one in taken:
        signal.signal(one, stop)
    try:
        yield came
    finally:
        for one in taken:
            signal.signal(one, before[one])


@contextmanager
def defer_signals() -> Iterator[None]:
    """Within the block Ctrl-C and the signals wait; a process that is started then has them wait too, until
    it says what it makes of them (`leave_signals_to_parent`)."""
    # Started with the first process, it would let them through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_parent() -> None:
    """For a process whose parent decides when it ends: what a whole group of processes gets, Ctrl-C's signal
    too, does nothing here. Programs that it starts have the signals as usual."""
    for one in _ALL:
        signal.signal(one, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ALL)
