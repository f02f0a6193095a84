"""How every command line ends: what the user can mend is one line and status 2; Ctrl-C a line and 130,
SIGTERM and SIGHUP a line and 128 plus their number.

Knows errors; nothing of any command.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from videopro.errors import VideoProError, WorkerBug
from videopro.processes import handle_termination
from videopro.storage import cannot_write, is_full

RESUME_HINT = "stopped; the same command goes on from here"


@dataclass
class ExitStatus:
    """What a command line returns: 0 unless its work says otherwise or fails."""

    code: int = 0


@contextmanager
def exit_status(stopped: str = RESUME_HINT) -> Iterator[ExitStatus]:
    """Do a command's work within the block, and return `code` behind it.

    A VideoProError becomes 2, as does a disk without room; a fault of ours in a worker 1; an interruption
    130, SIGTERM 143 and SIGHUP 129, with `stopped` said. Any other exception passes: it is a fault of ours,
    and its traceback says where.
    """
    status = ExitStatus()
    for stream in (sys.stdout, sys.stderr):
        # A console of another locale shows what it cannot write as an escape, and a command goes on.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with handle_termination() as came:
        try:
            yield status
        except VideoProError as error:
            print(f"error: {error}", file=sys.stderr)
            status.code = 2
        except WorkerBug as error:
            told = "error: a fault of videopro (above) stopped the run; what was done is safe"
            print(f"{error}\n{told}", file=sys.stderr)
            status.code = 1
        except KeyboardInterrupt:
            status.code = _stopped(came, stopped)
        except OSError as error:
            if came:
                # On the way out, the terminal whose end was told could not be written to.
                status.code = _stopped(came, stopped)
            elif is_full(error):
                print(f"error: {cannot_write(error.filename or 'a file', error)}", file=sys.stderr)
                status.code = 2
            else:
                raise


def _stopped(came: list[int], told: str) -> int:
    with suppress(OSError):
        print(f"\n{told}", file=sys.stderr)
    return 128 + (came[0] if came else signal.SIGINT)
