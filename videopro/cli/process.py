"""A command's process: one line and status 2 for errors that the user can fix, 130 for Ctrl-C, and 128 plus
the signal's number for SIGTERM and SIGHUP. Like Ctrl-C, these raise an exception, so that the command stops
its processes, leaves no partial files and reports how to resume. Also returns memory to the system.
"""

from __future__ import annotations

import ctypes
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import FrameType

from videopro.errors import VideoProError, WorkerBug, cannot_write, is_full, signal_name
from videopro.startup import working

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
    list of signals received, in order: an exception during cleanup (writing to a closed terminal) may hide
    `TerminationSignal`.

    Ignored signals stay ignored (nohup). Does nothing outside the main thread.
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
    """For a process whose parent decides when it ends: ignores signals sent to the whole process group,
    including Ctrl-C. Programs that it starts handle signals as usual."""
    for number in _ALL:
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ALL)


RESUME_HINT = "stopped; re-run the same command to resume"


@dataclass
class ExitStatus:
    """The exit status of a command: 0 unless its work sets another status or fails."""

    code: int = 0


@contextmanager
def exit_status(stopped: str = RESUME_HINT) -> Iterator[ExitStatus]:
    """Wrap a command's work, and return the status's `code` after the block.

    A VideoProError or a full disk becomes 2; an internal error in a worker 1; Ctrl-C 130, SIGTERM 143 and
    SIGHUP 129, after printing `stopped`; a closed output pipe (`| head`) 141, silently. Any other exception
    propagates: it is an internal error, and its traceback shows where.
    """
    status = ExitStatus()
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot encode a character shows an escape instead of ending the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with working(), handle_termination() as signals:
        try:
            try:
                yield status
            except Exception as error:
                if _follows_interrupt(error):
                    raise KeyboardInterrupt from error
                raise
            finally:
                # Inside the block: what the interpreter finds at its exit, it prints.
                if sys.exc_info()[0] in (None, SystemExit):
                    sys.stdout.flush()
        except VideoProError as error:
            print(f"error: {error}", file=sys.stderr)
            status.code = 2
        # Its message is the worker's traceback: ours of this process would show only that it waited.
        except WorkerBug as error:
            message = "error: the run stopped after an internal error (see above); finished work is saved"
            print(f"{error}\n{message}", file=sys.stderr)
            status.code = 1
        except SystemExit as error:
            # Rich's console ends the process with status 1 if nobody reads its output any more.
            if not isinstance(error.__context__, BrokenPipeError):
                raise
            status.code = 128 + signal.SIGPIPE
        except KeyboardInterrupt:
            status.code = _stopped(signals, stopped)
        except OSError as error:
            if signals:
                # The terminal has gone (SIGHUP), so writing to it failed on the way out.
                status.code = _stopped(signals, stopped)
            elif is_full(error):
                print(f"error: {cannot_write(error.filename or 'a file', error)}", file=sys.stderr)
                status.code = 2
            elif isinstance(error, BrokenPipeError) and _let_go_of_closed_streams():
                status.code = 128 + signal.SIGPIPE
            else:
                raise


def _follows_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C is behind an error: some libraries raise their own error when their import is
    interrupted, and closing things on the way out may fail."""
    seen: set[int] = set()
    before: BaseException | None = error
    # Causes may form a circle.
    while before is not None and id(before) not in seen:
        if isinstance(before, KeyboardInterrupt):
            return True
        seen.add(id(before))
        before = before.__cause__ or before.__context__
    return False


def _stopped(signals: list[int], message: str) -> int:
    with suppress(OSError):
        print(f"\n{message}", file=sys.stderr)
    _let_go_of_closed_streams()
    return 128 + (signals[0] if signals else signal.SIGINT)


def _let_go_of_closed_streams() -> bool:
    """Discard output whose terminal or reader is gone, and return whether there was any. The interpreter
    would otherwise try again at exit, and return 120."""
    is_closed = False
    for stream in (sys.stdout, sys.stderr):
        has_reader = True
        try:
            # A failed write may have emptied the buffer, so that flushing alone would succeed.
            has_reader = _has_reader(stream.fileno())
            stream.flush()
        except io.UnsupportedOperation:
            continue  # No file at all, such as a test's.
        except OSError:
            has_reader = False
        if not has_reader:
            is_closed = True
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
    return is_closed


def _has_reader(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return not any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))


def trim_heap() -> None:
    """Return all free pages to the system, in about 50 ms per GiB. Call it between videos, not between
    questions."""
    # glibc keeps freed memory for later allocations. In a long-lived process, memory kept for hours (frames)
    # is interleaved with memory needed for moments (pictures being decoded, activations), and the gaps add
    # up: a worker whose frames stayed within 512 MiB held another 1,100 MiB of unused memory after 1,122
    # questions (perf/memory.py). Another C library, such as musl, has no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
