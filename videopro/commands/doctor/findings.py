"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "missing", "wrong", "broken"]
"""ok; missing: only some runs need it; wrong: runs that use it fail; broken: no run works."""


@dataclass(frozen=True)
class Finding:
    """A line of the report."""

    section: str
    name: str
    state: State
    text: str


def size(bytes_: float) -> str:
    """A number of bytes as text: 512 MB, 1.5 GB."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e9 else f"{round(bytes_ / 1e6):,} MB"
