"""Exit statuses of every command line: one line and status 2 for errors the user can fix, one line and 130
for Ctrl-C, one line and 128 plus the signal's number for SIGTERM and SIGHUP.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from videopro.cli.stopping import handle_termination
from videopro.errors import VideoProError, WorkerBug, cannot_write, is_full
from videopro.startup import working

RESUME_HINT = "stopped; re-run the same command to resume"


@dataclass
class ExitStatus:
    """What a command line returns: 0 unless its work sets another status or fails."""

    code: int = 0


@contextmanager
def exit_status(stopped: str = RESUME_HINT) -> Iterator[ExitStatus]:
    """Do a command's work inside the block, and return the status's `code` after it.

    A VideoProError or a full disk becomes 2; an internal error in a worker 1; Ctrl-C 130, SIGTERM 143 and
    SIGHUP 129, after printing `stopped`; output that nobody reads any more (`| head`) 141, without a word.
    Any other exception propagates: it is an internal error, and its traceback says where.
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
            message = "error: an internal error (above) stopped the run; finished work is saved"
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
    """Whether Ctrl-C is behind an error: some libraries make an error of their own of whatever ends their
    import, and what is closed on the way out may fail."""
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
    """Send output that nobody can receive any more, its terminal or reader gone, nowhere; whether there was
    any. The interpreter would try once more at its exit, and return 120."""
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
