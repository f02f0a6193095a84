"""Text from elsewhere, such as a server's or a model's, made fit for a terminal and for a message."""

from __future__ import annotations

import re
import unicodedata

from videopro.storage.surrogates import encodable

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
