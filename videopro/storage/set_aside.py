"""Lines of a file that cannot be read: they are set aside and told, and the other lines count."""

from __future__ import annotations

import sys
from pathlib import Path

# A message names at most this many lines.
_NAMED = 5
_WHY_CHARS = 200


class SetAside:
    """The lines of one file that were set aside, each told once. `outcome`: what becomes of what they held,
    for the message."""

    def __init__(self, path: Path, outcome: str) -> None:
        self.path = path
        self.lines: dict[int, str] = {}
        """Why, by the line's number from 1."""
        self._outcome = outcome
        self._reported = 0

    def add(self, number: int, reason: object) -> None:
        """Set a line aside."""
        self.lines.setdefault(number, str(reason)[:_WHY_CHARS])

    def tell(self) -> None:
        """Say on stderr which lines were set aside, unless that has been said."""
        if len(self.lines) > self._reported:
            self._reported = len(self.lines)
            print(self.text(), file=sys.stderr)

    def text(self) -> str:
        """Which lines, and why."""
        count = len(self.lines)
        named = [f"line {number} ({reason})" for number, reason in list(self.lines.items())[:_NAMED]]
        named += [f"{count - _NAMED} others"] if count > _NAMED else []
        which = "1 line cannot be read and was" if count == 1 else f"{count} lines cannot be read and were"
        return f"{self.path}: {which} set aside: {', '.join(named)}; {self._outcome}"
