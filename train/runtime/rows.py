"""Code shared by the rows of all kinds of training: the digest of their file, and unreadable videos."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from videopro.errors import DatasetError


def digest(path: Path) -> str:
    """16 hex digits that identify a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class HasVideo(Protocol):
    """A row that may have a video."""

    @property
    def id(self) -> str: ...

    @property
    def video(self) -> Path | None: ...


R = TypeVar("R", bound=HasVideo)


def drop_unreadable(rows: Sequence[R], failures: Mapping[Path, str]) -> tuple[list[R], list[R]]:
    """The rows whose video can be read (or that have none), and the dropped ones. Raises DatasetError if no
    row is left."""
    kept = [row for row in rows if row.video not in failures]
    dropped = [row for row in rows if row.video in failures]
    if not kept:
        path, why = next(iter(failures.items()))
        raise DatasetError(f"none of {len(rows)} rows has a readable video; the first: {path}: {why}")
    return kept, dropped
