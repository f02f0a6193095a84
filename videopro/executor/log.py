"""The log of a failed or doubtful program, as the refinement prompt shows it (Fig. 11: "Runtime error log").

It contains the error's type and message, the program's own lines, the calls made so far, and the output. A
hostile program may have chosen any of this text, so it is sanitized and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

# Marks of tokenizers and chat templates: <|im_end|>, </s>, <video>, <start_of_turn>, [INST], <<SYS>>.
_ANGLE_MARK = re.compile(r"<(?=<?[/|｜!]?[^\s<>]{1,60}>)")
_SQUARE_MARK = re.compile(r"\[(?=/?[A-Z_]{2,30}\])")
# Control characters except newline and tab, direction marks, invisible characters, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff0-\ufffb]"
)


def harmless(text: str) -> str:
    """The text without control characters and lone surrogates; chat template marks are broken by a space."""
    if text.isprintable() and "<" not in text and "[" not in text:  # Most texts: skip the rest.
        return text
    text = _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    # Broken rather than removed: what a removal leaves behind can form a mark again.
    return _SQUARE_MARK.sub("[ ", _ANGLE_MARK.sub("< ", text))


def shorten(text: str, most: int) -> str:
    """At most `most` characters; a cut end is replaced by an ellipsis."""
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def brief(value: Any, describe: Callable[[Any], str], most: int = 200) -> str:
    """A value as one line of at most about `most` characters. `describe` renders what is not plain data.

    Takes time proportional to the text, not to the value.
    """
    parts: list[str] = []
    _show(value, describe, parts, most)
    return shorten("".join(parts), most)


def _show(value: Any, describe: Callable[[Any], str], parts: list[str], room: int) -> int:
    kind = type(value)
    if kind is str:
        # Cut first: the repr of a text of megabytes would be made for a line of 200 characters.
        text = repr(value if len(value) <= room else value[:room])
    elif value is None or kind is bool or kind is int:
        text = repr(value)
    elif kind is float:
        text = f"{value:.6g}"
    elif kind is list or kind is tuple or kind is set or kind is frozenset:
        start, end = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
        return _show_all(value, start, end, describe, parts, room)
    elif kind is dict:
        return _show_all(value.items(), "{", "}", describe, parts, room)
    else:
        text = describe(value)
    parts.append(text)
    return room - len(text)


def _show_all(
    values: Any, start: str, end: str, describe: Callable[[Any], str], parts: list[str], room: int
) -> int:
    parts.append(start)
    room -= 2
    for number, item in enumerate(values):
        if number:
            parts.append(", ")
            room -= 2
        if room <= 0:
            parts.append("…")
            break
        if end == "}" and start == "{" and type(values) is not set and type(values) is not frozenset:
            room = _show(item[0], describe, parts, room)
            parts.append(": ")
            room = _show(item[1], describe, parts, room - 2)
        else:
            room = _show(item, describe, parts, room)
    if end == ")" and len(values) == 1:
        parts.append(",")
    parts.append(end)
    return room


ErrorReport = tuple[str, str, Sequence[tuple[int, str]]]
"""An exception: its type, its message, and the program's (line, function)s, outermost first."""

_MOST_CALLS = 20


def compose_log(
    source: Sequence[str], raised: Sequence[ErrorReport], calls: Sequence[str], output: str, most: int
) -> str:
    """Compose the log. `source`: the program's lines. `raised`: the exception, then its causes. `calls`:
    as `shown_call` shows them."""
    error = []
    for number, (kind, message, positions) in enumerate(raised):
        if number:
            error.append("which came from:")
        error.append(f"{kind}: {message}" if message else kind)
        error.extend(_position(source, line, function) for line, function in positions)
    call_lines = []
    if calls:
        call_lines.append("calls so far:")
        left_out = len(calls) - _MOST_CALLS
        for number, call in enumerate(calls, 1):
            # The first calls show what the program looked for, the last ones what went wrong.
            if left_out > 0 and _MOST_CALLS // 2 < number <= _MOST_CALLS // 2 + left_out:
                if number == _MOST_CALLS // 2 + 1:
                    call_lines.append(f"  ({left_out} more)")
                continue
            call_lines.append(f"  {call}")
    elif raised:
        call_lines.append("no module was called")
    printed = (
        ["printed:", *(f"  {line}" for line in shorten(output, 500).splitlines())] if output.strip() else []
    )
    # The error first and in full: calls and output are what is cut.
    first = shorten(harmless("\n".join(error)), most)
    details = harmless("\n".join([*call_lines, *printed]))
    return shorten("\n".join(part for part in (first, details) if part), most)


def shown_call(fn: str, arguments: str, ended: str, line: int | None) -> str:
    """A call as a line of the log. `ended`: what it gave or raised."""
    where = f"line {line}: " if line else ""
    return f"{where}{fn}({arguments}) {ended}"


def _position(source: Sequence[str], line: int, function: str) -> str:
    where = f"in {function}" if function and function != "<module>" else "at the top level"
    text = source[line - 1].strip() if 0 < line <= len(source) else ""
    return f"  line {line}, {where}: {shorten(text, 200)}" if text else f"  line {line}, {where}"
