"""A program's output: kept in memory, bounded, sent with the next message."""

from __future__ import annotations

from collections.abc import Callable


class Output:
    """Replaces sys.stdout. When more than `size` characters have been written in total, raises the exception
    that `breach` makes from a message; the host is sent one character too many, so that it notices too."""

    encoding = "utf-8"
    closed = False

    def __init__(self, size: int, breach: Callable[[str], BaseException]) -> None:
        self._size = self._left = size
        self._breach = breach
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        """Keep what fits."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if len(text) > self._left:
            # What fits is kept: the log shows the beginning of a flood.
            self._parts.append(text[: self._left + 1])
            self._left = -1
            raise self._breach(f"the program printed more than {self._size:,} characters")
        self._left -= len(text)
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Does nothing: output is sent with the next message."""

    def isatty(self) -> bool:
        """Never a terminal."""
        return False

    def take(self) -> str:
        """Return what was written since the last call."""
        if not self._parts:
            return ""
        text = "".join(self._parts)
        self._parts.clear()
        return text
