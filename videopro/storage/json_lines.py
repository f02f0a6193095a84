"""Reads the rows of a training file: one JSON object per line, with its line number."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

from videopro.errors import DatasetError
from videopro.storage.json_objects import read_object


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
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); give {give}") from error
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
