"""What a program prints: kept in memory, bounded, handed on with the next message. Knows nothing else."""

from __future__ import annotations

from collections.abc import Callable


class Output:
    """Stands in for sys.stdout. Raises what `breach` makes of a message when more than `size` characters were
    written in all; the host is told one more, so that it knows too."""

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
            self._parts.append(text[: self._left + 1])
            self._left = -1
            raise self._breach(f"the program printed more than {self._size:,} characters")
        self._left -= len(text)
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing to do: what is written goes out with the next message."""

    def isatty(self) -> bool:
        """Never a terminal."""
        return False

    def take(self) -> str:
        """What was written since the last time."""
        if not self._parts:
            return ""
        text = "".join(self._parts)
        self._parts.clear()
        return text
