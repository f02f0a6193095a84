"""Atomic writes, and locks, which the kernel frees when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from videopro.errors import RunError, cannot_write, lacks_locks, wait_until, writing_file


def write_atomically(path: Path, text: str | bytes, *, shared: bool = False) -> None:
    """Write a file completely or not at all: a failed write leaves nothing behind. `shared`: other processes
    may write the same file at the same time, as in a cache; the last one stands. Raises OSError."""
    # Separate names for the writers only where needed: a name that stays the same is overwritten by
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


def write_file(path: Path, text: str, otherwise: str = "fix that") -> None:
    """Write a file, with its folder, completely or not at all. Raises RunError with the message of
    `cannot_write`."""
    with writing_file(path, otherwise):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)


# Longer than a killed command's lock lives on, in a child that ends a moment later.
_SOON = 5.0


def lock_file(file: int) -> None:
    """Lock an open file for this descriptor alone; waits for the lock. Raises OSError on a disk without
    locks, and Cancelled."""

    def attempt(seconds: float | None) -> bool:
        if seconds is None:
            fcntl.flock(file, fcntl.LOCK_EX)
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The kernel notifies no waiter with a time limit.
            time.sleep(seconds)
            return False
        return True

    wait_until(attempt)


def lock_soon(file: int, how: int) -> bool:
    """Lock an open file; `how`: fcntl.LOCK_EX or LOCK_SH. Whether it succeeded within a few seconds. Raises
    OSError on a disk without locks."""
    end = time.monotonic() + _SOON
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)


@contextmanager
def sole_writer(folder: Path, option: str = "--output") -> Iterator[None]:
    """Keep every other command that writes into an output folder out of it within the block; the folder is
    made. `option`: the one that names it. On a disk without locks a warning is printed, and nothing is kept
    out. Raises RunError if another command has the folder, or if it cannot be written."""
    path = folder / "work" / "writer.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise RunError(cannot_write(error.filename or path, error, f"pass another {option}")) from error
    with file:
        try:
            if not lock_soon(file.fileno(), fcntl.LOCK_EX):
                raise RunError(
                    f"{folder}: another command is writing there; wait for it, or pass another {option}"
                )
        except OSError as error:
            if not lacks_locks(error):
                raise RunError(cannot_write(path, error)) from error
            print(
                f"warning: {folder}: this disk does not support file locks ({error.strerror}); make sure "
                "that no other command writes there",
                file=sys.stderr,
            )
        yield
