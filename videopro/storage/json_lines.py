"""The append-only JSON-lines file behind every log of the project: traces, crash records, grades, rewards and
a teacher's replies; reading files of that kind, and telling which of their lines cannot be read.

Any number of threads and processes may append to a file, and any of them may be killed at any moment.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from videopro.errors import DatasetError, RunError, cannot_lock, cannot_write, is_full
from videopro.storage.files import lock_file
from videopro.storage.json_objects import read_object

# Bytes read at once when searching for the end of the last line.
_BLOCK = 1 << 16


class JsonLinesLog:
    """An open file of JSON objects, one per line.

    An append holds an exclusive lock on the file and does one write and one fsync: the lines are on the disk
    when it returns, all of them or none. A tail without a newline can only come from a killed writer; the
    next append cuts it.

    With `syncs_behind`, a thread does the fsync a moment later, once for all lines that were appended until
    then: a killed process loses nothing, a machine that loses power the last moment. Closing waits for it.

    A missing file is created, and with `make_folder` its folder too. With `writable=False` the file must
    exist and is not changed. Raises RunError for a file that cannot be opened.
    """

    def __init__(
        self, path: Path, *, writable: bool = True, make_folder: bool = False, syncs_behind: bool = False
    ) -> None:
        self.path = path
        self._syncing = _SyncBehind() if syncs_behind and writable else None
        self.torn = 0
        """Number of torn last lines that this object cut."""
        # flock holds for the open file, which all threads share: it does not keep them apart. Re-entrant,
        # since `append_lines` cuts a torn tail under the same lock.
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
        """Close the file, which also releases a lock from `hold`. Raises RunError if lines that were appended
        with `syncs_behind` did not reach the disk."""
        failure = self._syncing.end() if self._syncing is not None else None
        os.close(self._file)
        if failure is not None:
            raise self._lost(failure) from failure

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other thread and process from appending within the block; waits for the lock. Raises
        RunError on a disk without locks, and Cancelled."""
        with self._threads:
            if not self._depth:
                try:
                    lock_file(self._file)
                except OSError as error:
                    raise RunError(cannot_lock(self.path, error)) from error
            self._depth += 1
            try:
                self._check_in_place()
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def _check_in_place(self) -> None:
        """Raise RunError if the path names another file now: what is appended to this one would be lost."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.path), os.fstat(self._file)):
                return
        raise RunError(f"{self.path}: was replaced or removed while in use; run the same command again")

    def hold(self) -> bool:
        """Lock the file until it is closed. Returns False, without waiting, if another process has it
        locked. Raises RunError on a disk without locks."""
        with self._threads:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as error:
                raise RunError(cannot_lock(self.path, error)) from error
            self._depth += 1
            return True

    def read(self, start: int = 0, most: int = sys.maxsize) -> bytes:
        """The complete lines from byte `start` on, without a torn last line; of more than `most` bytes those
        that fit, and at least one. Raises RunError for a file that is shorter than `start`."""
        size = os.fstat(self._file).st_size
        # Offsets are positions of complete lines, and nothing here makes a log shorter, save for a torn tail.
        if size < start:
            raise RunError(f"{self.path}: was truncated while in use; another program has changed it")
        content = bytearray()
        # One read may return less than was asked for: Linux gives at most 2 GiB at a time.
        while len(content) < min(size - start, most) or (most < size - start and b"\n" not in content):
            wanted = min(size - start - len(content), most)
            part = os.pread(self._file, wanted, start + len(content))
            if not part:
                break
            content += part
        return bytes(content[: content.rfind(b"\n") + 1])

    def append(self, *records: Mapping[str, Any]) -> None:
        """Write objects durably, one per line, all or none; see `append_lines`."""
        # Escaped, because a model's reply may hold a lone surrogate, which UTF-8 cannot encode.
        self.append_lines("".join(json.dumps(record) + "\n" for record in records).encode("ascii"))

    def append_lines(self, lines: bytes) -> None:
        """Write complete lines durably, all or none. On a full disk, or any other failure, the file does not
        change and RunError is raised."""
        with self.locked():
            # After a failed fsync the kernel may have dropped the pages: to try again would report success.
            if self._syncing is not None and self._syncing.failure is not None:
                raise self._lost(self._syncing.failure) from self._syncing.failure
            self.cut_torn_tail()
            size = os.fstat(self._file).st_size
            try:
                # One write, not a loop: with O_APPEND the lines then lie together, and a short write means a
                # full disk.
                written = os.write(self._file, lines)
                if written != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self._syncing is None:
                    os.fsync(self._file)
            except OSError as error:
                with suppress(OSError):  # If this fails too, the next append cuts the torn tail.
                    os.ftruncate(self._file, size)
                message = cannot_write(self.path, error, "fix that and re-run the same command")
                raise RunError(f"{message}; finished work is saved") from error
        if self._syncing is not None:
            self._syncing.request(self._file)

    def _lost(self, error: OSError) -> RunError:
        message = cannot_write(self.path, error, "fix that and re-run the same command")
        return RunError(f"{message}; its last lines may not have reached the disk")

    def cut_torn_tail(self) -> None:
        """Remove an incomplete last line that a killed writer left."""
        with self.locked():
            end = size = os.fstat(self._file).st_size
            while end:
                # Nearly always the last byte is a newline: one byte is read before whole blocks are.
                start = end - 1 if end == size else max(0, end - _BLOCK)
                newline = os.pread(self._file, end - start, start).rfind(b"\n")
                if newline >= 0:
                    end = start + newline + 1
                    break
                end = start
            if end < size:
                os.ftruncate(self._file, end)
                self.torn += 1


class _SyncBehind:
    """A thread that flushes a file to the disk after appends, started by the first one."""

    def __init__(self) -> None:
        self.failure: OSError | None = None
        self._changed = threading.Condition()
        self._requested = False
        self._ended = False
        self._thread: threading.Thread | None = None

    def request(self, file: int) -> None:
        """Flush the file soon."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, args=(file,), daemon=True, name="fsync")
                self._thread.start()
            self._requested = True
            self._changed.notify()

    def end(self) -> OSError | None:
        """Flush what was requested, and end the thread. Returns what failed."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        return self.failure

    def _work(self, file: int) -> None:
        while True:
            with self._changed:
                while not (self._requested or self._ended):
                    self._changed.wait()
                if not self._requested:
                    return
                self._requested = False
            try:
                os.fsync(file)
            except OSError as error:
                self.failure = error
                return


def read_json_lines(
    path: Path, give: str, *, left_out: MutableMapping[int, str] | None = None
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield (line number, "FILE, line N" for messages, object) for each line that is not empty. Raises
    DatasetError for a file that cannot be read, saying what to `give`, and for a line that is not an
    object; with `left_out`, such a line is skipped, and its reason is put there by its number."""
    try:
        # Bytes, not text: str.splitlines() would also split at characters that may stand inside a JSON
        # string, such as U+2028, and a line that is not UTF-8 must not cost the others.
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); pass {give}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                record = read_object(line, where, DatasetError)
            except DatasetError as error:
                if left_out is None:
                    raise
                left_out[number] = str(error).removeprefix(f"{where}: ")
                continue
            yield number, where, record


# A message names at most this many lines.
_NAMED = 5
_WHY_CHARS = 200


class SetAside:
    """The lines of one file that were set aside, each reported once. `outcome`: what happens to their
    content, for the message."""

    def __init__(self, path: Path, outcome: str) -> None:
        self.path = path
        self.lines: dict[int, str] = {}
        """Why, by the line's number from 1."""
        self._outcome = outcome
        self._reported = 0

    def add(self, number: int, reason: object) -> None:
        """Set a line aside."""
        self.lines.setdefault(number, str(reason)[:_WHY_CHARS])

    def tell(self) -> None:
        """Say on stderr which lines were set aside, unless that has been said."""
        if len(self.lines) > self._reported:
            self._reported = len(self.lines)
            print(self.text(), file=sys.stderr)

    def text(self) -> str:
        """Which lines, and why."""
        count = len(self.lines)
        named = [f"line {number} ({reason})" for number, reason in list(self.lines.items())[:_NAMED]]
        named += [f"{count - _NAMED} others"] if count > _NAMED else []
        which = "1 line cannot be read and was" if count == 1 else f"{count} lines cannot be read and were"
        return f"{self.path}: {which} set aside: {', '.join(named)}; {self._outcome}"
