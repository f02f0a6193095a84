"""Reads the rows of a training file: one JSON object per line, with its line number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from videopro.errors import DatasetError
from videopro.storage.json_objects import read_object


def read_json_lines(path: Path, give: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield (line number, "FILE, line N" for messages, object) for each line that is not empty. Raises
    DatasetError for a file that cannot be read, saying what to `give`, and for a line that is not an
    object."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); give {give}") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: is not UTF-8 ({error}); give {give}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield number, where, read_object(line, where, DatasetError)
