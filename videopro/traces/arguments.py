"""Records the arguments of a program's calls, within bounds: a program chooses them, and may choose many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from videopro.storage import stored_number, stored_text

LEFT_OUT = "…"
"""The key that records which arguments were omitted."""
_VALUE_CHARS = 500
_NAME_CHARS = 100
_CALL_VALUES = 32
_PROGRAM_CHARS = 1 << 19


class ArgumentRecorder:
    """Records the arguments of one program's calls. `show` describes values that are neither text nor
    number."""

    def __init__(self, show: Callable[[Any], str]) -> None:
        self._show = show
        self._left = _PROGRAM_CHARS

    def record(self, arguments: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """The arguments of a call by name, as a trace stores them. Truncated values are marked."""
        recorded: dict[str, Any] = {}
        values = dict(arguments)
        for name, value in values.items():
            if len(recorded) >= _CALL_VALUES or self._left <= 0:
                break
            stored = self._stored(value)
            recorded[stored_text(name, _NAME_CHARS)] = stored
            self._left -= len(name[:_NAME_CHARS]) + (len(stored) if isinstance(stored, str) else 8)
        if len(recorded) < len(values):
            limit = f"a call's first {_CALL_VALUES} are"
            if self._left <= 0:
                limit = f"the first {_PROGRAM_CHARS:,} characters of a program's arguments are"
            recorded[LEFT_OUT] = f"{len(values) - len(recorded):,} more arguments; {limit} recorded"
        return recorded

    def _stored(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return stored_number(value)
        return stored_text(value if isinstance(value, str) else self._show(value), _VALUE_CHARS)
