"""Appending to a file that several processes share and that a kill may hit at any moment: all of what is
given or nothing, on the disk before the call returns.

Knows files; nothing of what is in them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from videopro.errors import RunError


@contextmanager
def locked(file: int) -> Iterator[None]:
    """Hold the exclusive lock of an open file, waiting for it."""
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def append_whole(file: int, path: Path, data: bytes) -> None:
    """Append in one write and one fsync; nobody else may write meanwhile. On a full disk, or any other
    failure, the file is left as it was, and RunError is raised, naming `path`."""
    size = os.fstat(file).st_size
    try:
        written = os.write(file, data)
        reason = "" if written == len(data) else "the disk is full"
        if not reason:
            os.fsync(file)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        os.ftruncate(file, size)
        raise RunError(
            f"{path}: cannot be written ({reason}); what was done before is safe: mend this and give the "
            "same command again"
        )
