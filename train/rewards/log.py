"""The append-only file of a training run's executions: a JSON line a reply.

Whole lines at any moment, from any number of processes. Knows files; nothing of what a line says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videopro.errors import RunError
from videopro.storage import append_bytes, file_lock


class RewardLog:
    """Appends lines to a file, which is made, with its folder, if it is missing. What a killed process left
    of a line is cut. Raises RunError for a file that cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(f"{path}: cannot be opened ({error.strerror})") from error
        with file_lock(self._file):
            self._cut()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Write records durably, all or none. Raises RunError."""
        # Escaped: a reply may hold half of a surrogate pair, which is no UTF-8.
        lines = "".join(json.dumps(record) + "\n" for record in records).encode("ascii")
        with file_lock(self._file):
            append_bytes(self._file, self.path, lines)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _cut(self) -> None:
        end = size = os.fstat(self._file).st_size
        while end:
            start = max(0, end - (1 << 16))
            whole = os.pread(self._file, end - start, start).rfind(b"\n") + 1
            if whole:
                end = start + whole
                break
            end = start
        if end < size:
            os.ftruncate(self._file, end)
