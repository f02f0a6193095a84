"""Exit statuses of every command line: one line and status 2 for errors the user can fix, one line and 130
for Ctrl-C, one line and 128 plus the signal's number for SIGTERM and SIGHUP.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from videopro.errors import VideoProError, WorkerBug
from videopro.processes import handle_termination
from videopro.storage import cannot_write, is_full

RESUME_HINT = "stopped; re-run the same command to resume"


@dataclass
class ExitStatus:
    """What a command line returns: 0 unless its work sets another status or fails."""

    code: int = 0


@contextmanager
def exit_status(stopped: str = RESUME_HINT) -> Iterator[ExitStatus]:
    """Do a command's work inside the block, and return the status's `code` after it.

    A VideoProError or a full disk becomes 2; an internal error in a worker 1; Ctrl-C 130, SIGTERM 143 and
    SIGHUP 129, after printing `stopped`. Any other exception propagates: it is an internal error, and its
    traceback says where.
    """
    status = ExitStatus()
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot encode a character shows an escape instead of ending the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with handle_termination() as signals:
        try:
            yield status
        except VideoProError as error:
            print(f"error: {error}", file=sys.stderr)
            status.code = 2
        except WorkerBug as error:
            message = "error: an internal error (above) stopped the run; finished work is saved"
            print(f"{error}\n{message}", file=sys.stderr)
            status.code = 1
        except KeyboardInterrupt:
            status.code = _stopped(signals, stopped)
        except OSError as error:
            if signals:
                # The terminal has gone (SIGHUP), so writing to it failed on the way out.
                status.code = _stopped(signals, stopped)
            elif is_full(error):
                print(f"error: {cannot_write(error.filename or 'a file', error)}", file=sys.stderr)
                status.code = 2
            else:
                raise


def _stopped(signals: list[int], message: str) -> int:
    with suppress(OSError):
        print(f"\n{message}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # The terminal has gone. The interpreter would try once more at its exit, and return 120.
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
    return 128 + (signals[0] if signals else signal.SIGINT)
