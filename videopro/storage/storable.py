"""What can be stored, in one place: the bounds of every value that a program sends and a trace holds.

The sandbox's wire gets them with the limits of each program (`videopro.executor.Limits`), a module's call is
recorded within them (`videopro.traces.ArgumentRecorder`), and a line is written only if the strict reader of
JSON (`json_objects`), which has the same bounds, reads it again. Beside the sizes: a float is finite, a key
is a text, and no text holds half of a character (a lone surrogate).
"""

from __future__ import annotations

import math

from videopro.storage.surrogates import encodable

DIGITS = 308
"""Digits of an integer. Every such integer converts to a float."""
DEPTH = 100
"""Lists and objects within each other in a line; the code that walks them is recursive."""
PROGRAM_DEPTH = 32
"""Containers within each other in a value that a program sends: less, because the line adds its own."""
PROGRAM_VALUES = 10_000
"""Values of one call of a program, or of what it returns: containers and their parts."""
PROGRAM_BYTES = 1 << 20
"""Bytes of these as JSON."""
LINE_BYTES = 64 << 20
"""A line of a log."""

_BEYOND: int = 10**DIGITS


def is_storable(number: float) -> bool:
    """Whether a number can be stored: it is finite, and no integer beyond the bound."""
    if isinstance(number, int):
        return -_BEYOND < number < _BEYOND
    return math.isfinite(number)


def stored_number(number: float) -> float | str:
    """A number as it is stored: itself, or what it is in words if it cannot be."""
    if is_storable(number):
        return number
    return f"an integer of {number.bit_length():,} bits" if isinstance(number, int) else str(number)


def stored_text(text: str, most: int) -> str:
    """A text as it is stored: a longer one is cut, and says how long it was."""
    if len(text) <= most:
        return encodable(text)
    return f"{encodable(text[:most])}… ({len(text):,} characters)"
