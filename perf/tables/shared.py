"""What the tables of pages are made with: their types, and tables that stand in Markdown already."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Any
"""What a file of results holds."""
Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Heads and rows."""
Tables = Mapping[tuple[str, str], Callable[[Record], Table]]
"""Tables by file and title: what makes each of the file's content."""


def titled(text: str, title: str) -> list[str]:
    """The lines of the Markdown table below a bold title.

    Raises KeyError if not exactly one table has this title.
    """
    parts = text.split(f"**{title}**\n\n")
    if len(parts) != 2:
        raise KeyError(f"{title!r} is the title of {len(parts) - 1} tables")
    match = re.match(r"(?:\|.*(?:\n|$))+", parts[1])
    if match is None:
        raise KeyError(f"{title!r}: no table stands below this title")
    return match[0].splitlines()
