"""What can be stored, in one place: the bounds of every value that a program sends and a trace holds.

The sandbox's wire gets them with the limits of each program (`videopro.executor.Limits`), a module's call is
recorded within them (`videopro.traces.ArgumentRecorder`), and a line is written only if the strict reader of
JSON (`json_objects`), which has the same bounds, reads it again. In addition to the sizes: a float is finite,
a key is a text, and no text holds half of a character (a lone surrogate).
"""

from __future__ import annotations

import math
import re
import unicodedata


def encodable(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, and surrogate pairs joined into their
    character."""
    if text.isascii():
        return text
    # By way of UTF-16, in which a pair of surrogates is the character that JSON's "\ud83d\ude00" means.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
    """A number as stored: itself, or a description if it cannot be stored."""
    if is_storable(number):
        return number
    return f"an integer of {number.bit_length():,} bits" if isinstance(number, int) else str(number)


def stored_text(text: str, most: int) -> str:
    """A text as stored: a longer one is truncated, with its length."""
    if len(text) <= most:
        return encodable(text)
    return f"{encodable(text[:most])}… ({len(text):,} characters)"


# Commands to a terminal, in whole: without its escape character, "[2J" would stay behind.
_COMMANDS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, moves, "clear the screen"
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)
# Characters that are looked at for each that a message keeps.
_READ = 64


def without_commands(text: str) -> str:
    """The text, with its lines, without commands to a terminal, control characters, invisible ones, and such
    as change the direction of writing."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, _COMMANDS.sub("", encodable(text).replace("\r\n", "\n"))))


def printable(text: str, most: int) -> str:
    """The same on one line of at most `most` characters (and "...")."""
    line = " ".join(without_commands(text[: most * _READ]).split())
    return line if len(line) <= most else f"{line[:most]}..."


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() or unicodedata.category(character) == "Zs" else ""
