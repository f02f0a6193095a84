"""The append-only file of JSON lines under every log of the project: traces, crash records, grades, rewards
and a teacher's replies.

Any number of threads and processes may append to one file, and a kill may hit any of them at any moment.
Knows files and locks; nothing of what a line says.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from videopro.errors import RunError
from videopro.storage.disk_errors import cannot_write, is_full

# Bytes read at once in search of the last line's end.
_BLOCK = 1 << 16


class JsonLinesLog:
    """An open file of JSON objects, one a line.

    An append happens under an exclusive lock of the file, in one write and one fsync: the lines are on the
    disk when it returns, all of them or none. A tail without a newline can only be what a killed writer left;
    the next append cuts it.

    The file is made if it is missing, and its folder too with `make_folder`. `writable` False: for reading
    only; the file must be there, and stays as it is. Raises RunError for a file that cannot be opened.
    """

    def __init__(self, path: Path, *, writable: bool = True, make_folder: bool = False) -> None:
        self.path = path
        self.torn = 0
        """Torn last lines that this object cut."""
        self._threads = threading.RLock()
        self._depth = 0
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if writable else os.O_RDONLY
        try:
            if make_folder:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            if is_full(error):
                raise RunError(cannot_write(path, error)) from error
            raise RunError(f"{path}: cannot be opened ({error.strerror})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and with it give back a lock from `hold`."""
        os.close(self._file)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other thread and process from appending for the length of the block; waits for them."""
        with self._threads:
            if not self._depth:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def hold(self) -> bool:
        """Lock the file until it is closed; False, without waiting, if another process has it."""
        with self._threads:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            self._depth += 1
            return True

    def read(self, start: int = 0) -> bytes:
        """The whole lines from byte `start` on; a torn last one is left out. Raises RunError for a file that
        is shorter than `start`."""
        size = os.fstat(self._file).st_size
        if size < start:
            raise RunError(f"{self.path}: became shorter while in use; another program has changed it")
        found = bytearray()
        while len(found) < size - start:
            part = os.pread(self._file, size - start - len(found), start + len(found))
            if not part:
                break
            found += part
        return bytes(found[: found.rfind(b"\n") + 1])

    def append(self, *records: Mapping[str, Any]) -> None:
        """Write objects durably, a line each, all or none; see `append_lines`."""
        # Escaped: a model's reply may hold half of a surrogate pair, which is no UTF-8.
        self.append_lines("".join(json.dumps(record) + "\n" for record in records).encode("ascii"))

    def append_lines(self, lines: bytes) -> None:
        """Write whole lines durably, all or none. On a full disk, or any other failure, the file is left as
        it was, and RunError is raised."""
        with self.locked():
            self.cut_torn_tail()
            size = os.fstat(self._file).st_size
            try:
                written = os.write(self._file, lines)
                if written != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._file)
            except OSError as error:
                with suppress(OSError):  # A disk in error: a torn tail is cut by whoever appends next.
                    os.ftruncate(self._file, size)
                told = cannot_write(self.path, error, "fix that and re-run the same command")
                raise RunError(f"{told}; what was done before is safe") from error

    def cut_torn_tail(self) -> None:
        """Remove what a killed writer left of a last line."""
        with self.locked():
            end = size = os.fstat(self._file).st_size
            while end:
                start = end - 1 if end == size else max(0, end - _BLOCK)
                newline = os.pread(self._file, end - start, start).rfind(b"\n")
                if newline >= 0:
                    end = start + newline + 1
                    break
                end = start
            if end < size:
                os.ftruncate(self._file, end)
                self.torn += 1
