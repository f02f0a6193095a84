"""Text from elsewhere, such as a server's, made fit for a message on a terminal and for a record."""

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
_READ = 64
"""Characters that are looked at for each that is kept."""


def printable(text: str, most: int) -> str:
    """The text on one line of at most `most` characters (and "..."), without commands to a terminal, control
    characters, invisible ones, and such as change the direction of writing."""
    text = encodable(text[: most * _READ])
    kept = _COMMANDS.sub("", text)
    seen = "".join(
        character
        if character.isprintable() or character.isspace()
        else " "
        if unicodedata.category(character) == "Zs"
        else ""
        for character in kept
    )
    line = " ".join(seen.split())
    return line if len(line) <= most else f"{line[:most]}..."
