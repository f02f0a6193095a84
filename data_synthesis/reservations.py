"""What the requests in flight of all commands on one folder may still cost, so that a cap holds for them
together.

Each command has a file of its own, which it keeps locked: the kernel releases the lock when it dies, however
it dies, and its requests in flight then count no more (those that were answered are in the log of replies).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from videopro.errors import RunError, cannot_write


class Reservations:
    """The reservations of the commands on a folder. Raises RunError if they cannot be kept there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            # Made under the lock, so that no other command takes it for that of a dead one.
            with self.locked():
                self._path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.json"
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
                fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            raise RunError(cannot_write(folder, error, "give another --output")) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from reserving within the block; waits for the lock."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def elsewhere(self) -> list[float]:
        """What each request in flight of the other commands may cost. Call it within `locked`."""
        costs: list[float] = []
        for path in self._folder.glob("*.json"):
            if path == self._path:
                continue
            file = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # It is locked, so its command is alive, and what it says counts.
                costs += json.loads(os.pread(file, 1 << 20, 0) or b"[]")
            else:
                # No lock: its command is dead.
                path.unlink()
            finally:
                os.close(file)
        return costs

    def write(self, pending: Sequence[float]) -> None:
        """Tell the others what this command's requests in flight may cost. Call it within `locked`. Raises
        RunError if the disk is full."""
        text = json.dumps(list(pending)).encode()
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text, 0)
        except OSError as error:
            raise RunError(cannot_write(self._path, error)) from error

    def close(self) -> None:
        """This command has no requests in flight any more."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._file)
        os.close(self._lock)
