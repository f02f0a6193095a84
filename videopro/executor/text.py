"""Short, sanitized text: values as a log shows them, without anything that chat templates or JSON interpret.

All of it may come from a hostile program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
