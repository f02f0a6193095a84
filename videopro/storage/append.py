"""Appending to a file that several processes share and that a kill may hit at any moment: all of what is
given or nothing, on the disk before the call returns.

Knows files; nothing of what is in them.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from videopro.errors import RunError
from videopro.storage.disk_errors import cannot_write


@contextmanager
def file_lock(file: int) -> Iterator[None]:
    """Hold the exclusive lock of an open file, waiting for it."""
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def append_bytes(file: int, path: Path, data: bytes) -> None:
    """Append in one write and one fsync; nobody else may write meanwhile. On a full disk, or any other
    failure, the file is left as it was, and RunError is raised, naming `path`."""
    size = os.fstat(file).st_size
    try:
        written = os.write(file, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    except OSError as error:
        with suppress(OSError):  # A disk in error: a torn tail is cut by whoever reads it next.
            os.ftruncate(file, size)
        told = cannot_write(path, error, "mend that and give the same command again")
        raise RunError(f"{told}; what was done before is safe") from error
