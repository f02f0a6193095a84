"""A program as `videopro.ask` prints it: numbered lines that wrap at the terminal's width."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

# How much further than its line's own indentation a continuation is indented.
_CONTINUED = 4
# A deeply nested line still gets this many columns.
_LEAST = 16


def print_code(code: str, console: Console) -> None:
    """Print Python code with line numbers. A line that is too long continues, indented, without a number."""
    lines = Syntax("", "python", background_color="default").highlight(code).split("\n", allow_blank=False)
    digits = max(3, len(str(len(lines))))
    room = max(_LEAST, console.width - digits - 2)
    for number, line in enumerate(lines, start=1):
        line.rstrip()
        for part, piece in enumerate(wrapped(line, room)):
            margin = f" {'' if part else number:>{digits}} "
            console.print(Text(margin, "dim").append_text(piece), soft_wrap=True, highlight=False)


def wrapped(line: Text, room: int) -> Iterator[Text]:
    """The pieces of a line, none wider than `room` cells. It is broken between two arguments, or after a
    space, if there is such a place in the second half of a piece; otherwise where the room ends."""
    indented = len(line.plain) - len(line.plain.lstrip(" "))
    indent = min(indented + _CONTINUED, max(0, room - _LEAST))
    before = ""
    while cell_len(before) + cell_len(line.plain) > room:
        here = room - cell_len(before)
        cut = _fitting(line.plain, here)
        for end in (", ", " "):
            at = line.plain.rfind(end, 0, cut + 1)
            if at >= max(indented, cut // 2):
                cut = min(at + len(end), cut)
                break
        yield Text(before).append_text(line[:cut])
        line = line[cut + 1 :] if line.plain[cut:].startswith(" ") else line[cut:]
        before, indented = " " * indent, 0
    yield Text(before).append_text(line)


def _fitting(text: str, cells: int) -> int:
    """How many characters of the text fit into the cells; at least one."""
    count = min(len(text), cells)
    while count > 1 and cell_len(text[:count]) > cells:
        count -= 1
    return max(1, count)
