"""What statements are made with: their types, and the rows of recorded files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from perf import ROOT

Statements = Mapping[tuple[str, str], Callable[[], Sequence[str]]]
"""By file and title, what makes a text of the file: a paragraph, or the items of a list, each with `- `."""


@cache
def record(file: str) -> Any:
    """The content of a file of results in JSON or YAML, relative to the repository."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return json.loads(text) if file.endswith(".json") else yaml.safe_load(text)


def row(file: str, name: str) -> Any:
    """The row of this name in a table that `videopro seeds` wrote, relative to docs/results."""
    return next(row for row in record(f"docs/results/{file}") if row["name"] == name)


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
