"""Atomic writes: a file is written completely or not at all."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, text: str | bytes, *, shared: bool = False) -> None:
    """Write a file completely or not at all: a failed write leaves nothing behind. `shared`: other processes
    may write the same file at the same time, as in a cache; the last one stands. Raises OSError."""
    # A name of its own for each writer only where it is needed: a name that stays the same is overwritten by
    # the next attempt, so a killed command leaves one stray file at most.
    writer = f".{os.getpid()}-{threading.get_native_id()}" if shared else ""
    new = path.with_name(f".{path.name}{writer}.new")
    try:
        with new.open("wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode("utf-8"))
            file.flush()
            # Without it, a machine that loses power may keep the new name and lose the content.
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        # Unlike a failed open, a failed write does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from error
