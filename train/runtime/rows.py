"""Code shared by the rows of all kinds of training: reading their file, its digest, unreadable videos."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from videopro.errors import DatasetError
from videopro.storage import read_json_lines

NAMED = 3
"""How many of the rows that are wrong a message names."""


def digest(path: Path) -> str:
    """16 hex digits that identify a file's content."""
    # A part of the hash is enough: it tells files apart that one user gives, not forgeries.
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class HasVideo(Protocol):
    """A row that may have a video."""

    @property
    def id(self) -> str: ...

    @property
    def video(self) -> Path | None: ...


R = TypeVar("R", bound=HasVideo)


@dataclass(frozen=True)
class RowsOfFile(Generic[R]):
    """The rows of a file that can be used, and why the others are left out."""

    path: Path
    rows: list[R]
    left_out: Mapping[int, str]
    """The reason, by the number of the line."""

    def summary(self) -> str:
        """How many rows were read and left out, and the first of those with their reasons."""
        if not self.left_out:
            return f"{self.path}: {len(self.rows)} rows"
        return f"{self.path}: {len(self.rows)} rows, {len(self.left_out)} left out: {self._reasons()}"

    def check_some(self) -> None:
        """Raise DatasetError if there are no rows."""
        if not self.rows and not self.left_out:
            raise DatasetError(f"{self.path}: has no rows")
        if not self.rows:
            raise DatasetError(
                f"{self.path}: none of its {len(self.left_out)} rows can be used: {self._reasons()}"
            )

    def _reasons(self) -> str:
        named = [f"line {number}: {self.left_out[number]}" for number in sorted(self.left_out)[:NAMED]]
        more = len(self.left_out) - len(named)
        return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def read_rows_of_file(
    path: Path, give: str, read: Callable[[Mapping[str, Any], str, int], R]
) -> RowsOfFile[R]:
    """Read a file of JSON lines: `read(record, where, line number)` makes a row, or raises DatasetError,
    which begins with `where`, for one that cannot be used. `give`: what the file should be, for messages.
    Raises DatasetError for a file that cannot be read, and for one without any row that can be used."""
    left_out: dict[int, str] = {}
    rows = []
    for number, where, record in read_json_lines(path, give, left_out=left_out):
        try:
            rows.append(read(record, where, number))
        except DatasetError as error:
            left_out[number] = str(error).removeprefix(f"{where}: ")
    rows_of_file = RowsOfFile(path, rows, left_out)
    rows_of_file.check_some()
    return rows_of_file


def drop_unreadable(rows: Sequence[R], failures: Mapping[Path, str]) -> tuple[list[R], list[R]]:
    """The rows whose video can be read (or that have none), and the dropped ones. Raises DatasetError if no
    row is left."""
    readable = [row for row in rows if row.video not in failures]
    dropped = [row for row in rows if row.video in failures]
    if not readable:
        path, reason = next(iter(failures.items()))
        raise DatasetError(f"none of {len(rows)} rows has a readable video; the first: {path}: {reason}")
    return readable, dropped
