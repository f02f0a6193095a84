"""The rows of a training file: a JSON object a line, with where each stands.

Knows files; nothing of what a row is to hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from videopro.errors import DatasetError
from videopro.storage.json_objects import read_object


def read_json_lines(path: Path, give: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Each object's line number, its place for messages and itself; empty lines are passed over. Raises
    DatasetError for a file that cannot be read, saying what to `give`, and for a line that is no object."""
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
