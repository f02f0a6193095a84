"""The fields of a benchmark's record: each is what it should be, or the message says what would mend it.

Knows records as plain mappings; must not know files or what any field means.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videopro.errors import BenchmarkError


def text(record: Mapping[str, Any], name: str) -> str:
    """A field that must be a text (a number is taken as one). Raises BenchmarkError."""
    value = record.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        problem = f"is {value!r}" if name in record else "is missing"
        raise BenchmarkError(f"field {name!r} {problem}; it must be a text")
    return value.strip()


def number(record: Mapping[str, Any], name: str) -> float:
    """A field that must be a number. Raises BenchmarkError."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"is {value!r}" if name in record else "is missing"
        raise BenchmarkError(f"field {name!r} {problem}; it must be a number")
    return float(value)


def texts(record: Mapping[str, Any], name: str) -> list[str]:
    """A field that must be a list of texts. Raises BenchmarkError."""
    value = record.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        problem = f"is {value!r}" if name in record else "is missing"
        raise BenchmarkError(f"field {name!r} {problem}; it must be a list of texts")
    return value


def file_name(record: Mapping[str, Any], name: str) -> str:
    """A field that must be the name of a file inside the benchmark. Raises BenchmarkError."""
    value = text(record, name)
    if value.startswith("/") or ".." in Path(value).parts:
        raise BenchmarkError(f"field {name!r} is {value!r}; it must be a file's name inside the benchmark")
    return value


def index(record: Mapping[str, Any], name: str, count: int) -> int:
    """A field that must be the place of an option, 0 to count - 1. Raises BenchmarkError."""
    value = record.get(name)
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        problem = f"is {value!r}" if name in record else "is missing"
        raise BenchmarkError(f"field {name!r} {problem}; it must be the place of an option, 0 to {count - 1}")
    return value


def known_groups(record: Mapping[str, Any], **fields: str) -> dict[str, str]:
    """Groups from fields, {group: field}; a field that is missing or empty gives none."""
    return {
        group: str(record[name]).strip()
        for group, name in fields.items()
        if record.get(name) is not None and str(record[name]).strip()
    }
