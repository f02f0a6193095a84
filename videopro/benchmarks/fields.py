"""Typed access to the fields of a benchmark's record; an invalid field raises BenchmarkError with the fix."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videopro.errors import BenchmarkError, VideoError
from videopro.question import LETTERS
from videopro.video import check_no_url


def text(record: Mapping[str, Any], name: str) -> str:
    """A field that must be text (a whole number is converted). Raises BenchmarkError."""
    value = record.get(name)
    # Ids and answers such as 7 come as numbers from JSON and parquet.
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise BenchmarkError(f"field {name!r} {_problem(record, name)}; it must be text")
    return value.strip()


def number(record: Mapping[str, Any], name: str) -> float:
    """A field that must be a number. Raises BenchmarkError."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BenchmarkError(f"field {name!r} {_problem(record, name)}; it must be a number")
    return float(value)


def texts(record: Mapping[str, Any], name: str) -> list[str]:
    """A field that must be a list of texts. Raises BenchmarkError."""
    value = record.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BenchmarkError(f"field {name!r} {_problem(record, name)}; it must be a list of texts")
    return value


def file_name(record: Mapping[str, Any], name: str) -> str:
    """A field that must be a file name inside the benchmark's folder. Raises BenchmarkError."""
    value = text(record, name)
    check_is_file(value, f"field {name!r}")
    if value.startswith("/") or ".." in Path(value).parts or not can_name_a_file(value):
        problem = _problem(record, name)
        raise BenchmarkError(f"field {name!r} {problem}; it must be a file name inside the benchmark")
    return value


def check_is_file(name: str, subject: str) -> None:
    """Raise BenchmarkError, starting with `subject`, for the URL of a remote file."""
    try:
        check_no_url(name)
    except VideoError as error:
        raise BenchmarkError(f"{subject}: {error}") from None


def can_name_a_file(name: str) -> bool:
    """Whether a file system allows a file of this name plus an extension."""
    parts = name.encode("utf-8", "replace").split(b"/")
    # Linux allows 255 bytes for a part; some are left for an extension.
    return "\0" not in name and len(name) <= 1024 and all(len(part) <= 240 for part in parts)


def interval(value: Any, name: str) -> tuple[float, float]:
    """One of the intervals in a field, [start, end] in seconds. Raises BenchmarkError."""
    numbers = isinstance(value, list) and len(value) == 2 and all(map(is_time, value))
    if not numbers or not 0 <= value[0] <= value[1]:
        raise BenchmarkError(
            f"field {name!r} contains {quoted(value)}; it must be a list of [start, end] in seconds"
        )
    return float(value[0]), float(value[1])


_OPTION = re.compile(r"^\s*\(([A-Z])\)[ \t]*(.*)$", re.MULTILINE)


def split_options(record: Mapping[str, Any], name: str) -> tuple[str, list[str]]:
    """The question and the options of a field whose text is a question, followed by its options in lines that
    start with (A), (B), .... Raises BenchmarkError."""
    body = text(record, name)
    options = list(_OPTION.finditer(body))
    letters = "".join(option[1] for option in options)
    if len(options) < 2 or not LETTERS.startswith(letters):
        raise BenchmarkError(
            f"field {name!r} has the options {letters or 'none'}; they must be lines that start with (A), "
            "(B), ..."
        )
    return body[: options[0].start()].strip(), [option[2].strip() for option in options]


def without_labels(options: Sequence[str]) -> tuple[str, ...]:
    """Options without their leading letters: "A. Black." becomes "Black.", if all have one, in order."""
    labels = [_LABEL.match(option) for option in options]
    if any(label is None or label[1] != letter for label, letter in zip(labels, LETTERS, strict=False)):
        return tuple(options)
    return tuple(_LABEL.sub("", option) for option in options)


_LABEL = re.compile(r"^\s*\(?([A-Z])[.):]\s*(?=\S)")


def quoted(value: object) -> str:
    """The repr of an invalid value for a message, at most 200 characters."""
    text_of_value = repr(value)
    return text_of_value if len(text_of_value) <= 200 else f"{text_of_value[:200]}..."


def is_time(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _problem(record: Mapping[str, Any], name: str) -> str:
    return f"is {quoted(record[name])}" if name in record else "is missing"


def index(record: Mapping[str, Any], name: str, count: int) -> int:
    """A field that must be the index of an option, 0 to count - 1. Raises BenchmarkError."""
    value = record.get(name)
    # Tables read every field as text.
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,3}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise BenchmarkError(
            f"field {name!r} {_problem(record, name)}; it must be the index of an option, 0 to {count - 1}"
        )
    return value


def known_groups(record: Mapping[str, Any], **fields: str) -> dict[str, str]:
    """Groups from fields, {group: field}; a missing or empty field is skipped."""
    return {
        group: str(record[name]).strip()
        for group, name in fields.items()
        if record.get(name) is not None and str(record[name]).strip()
    }
