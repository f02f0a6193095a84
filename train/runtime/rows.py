"""What rows of every kind of training have in common: a file with a digest, and a video that may not be
readable.

Knows files; nothing of what a row holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from videopro.errors import DatasetError


def digest(path: Path) -> str:
    """16 hex digits that tell the file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Shows(Protocol):
    """A row that may show a video."""

    @property
    def id(self) -> str: ...

    @property
    def video(self) -> Path | None: ...


R = TypeVar("R", bound=Shows)


def drop_unreadable(rows: Sequence[R], failures: Mapping[Path, str]) -> tuple[list[R], list[R]]:
    """The rows whose video can be read (or that have none), and those that are dropped. Raises DatasetError
    when none is left."""
    kept = [row for row in rows if row.video not in failures]
    dropped = [row for row in rows if row.video in failures]
    if not kept:
        path, why = next(iter(failures.items()))
        raise DatasetError(f"none of {len(rows)} rows has a video that can be read; the first: {path}: {why}")
    return kept, dropped
