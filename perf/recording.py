"""Files of results: how they are written, and how some new rows join those that a file has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videopro.errors import ConfigError
from videopro.storage import write_atomically


def commit_of(checkout: Path) -> str:
    """The short hash of the commit that is checked out there."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def write_record(path: Path, record: Any, indent: int = 1) -> None:
    """Write results as JSON, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(record, indent=indent) + "\n")


def recorded_rows(path: Path, name: str, same: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that a file of results has under `name`, to be kept beside new ones; none without a file.

    Raises ConfigError if the file is something else, or if it was recorded with other values than those of
    `same`: its rows and new ones could not be compared.
    """
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        rows = dict(record[name])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path}: has no results of this script ({error!r}); give another --output"
        ) from error
    for key, value in same.items():
        if record.get(key) != value:
            raise ConfigError(
                f"{path}: was recorded with {key} {record.get(key)!r}, and this is {value!r}; give another "
                f"--output, or leave out --only to record everything anew"
            )
    return rows
