"""How every command line ends: what the user can mend is one line and status 2, Ctrl-C a line and 130.

Knows errors; nothing of any command.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from videopro.errors import VideoProError, WorkerBug

GOES_ON = "stopped; the same command goes on from here"


@dataclass
class ExitStatus:
    """What a command line returns: 0 unless its work says otherwise or fails."""

    code: int = 0


@contextmanager
def exit_status(stopped: str = GOES_ON) -> Iterator[ExitStatus]:
    """Do a command's work within the block, and return `code` behind it.

    A VideoProError becomes 2, a fault of ours in a worker 1, an interruption 130 with `stopped` said. Any
    other exception passes: it is a fault of ours, and its traceback says where.
    """
    status = ExitStatus()
    for stream in (sys.stdout, sys.stderr):
        # A console of another locale shows what it cannot write as an escape, and a command goes on.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
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
        print(f"\n{stopped}", file=sys.stderr)
        status.code = 130
