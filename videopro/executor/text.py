"""Short and harmless text: values as a log shows them, and nothing in it that a chat template or JSON minds.

Everything here may come from a hostile program. Knows values and strings only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# What tokenizers and chat templates treat as marks: <|im_end|>, </s>, <video>, <start_of_turn>, [INST],
# <<SYS>>.
_ANGLE_MARK = re.compile(r"<(?=<?[/|｜!]?[^\s<>]{1,60}>)")
_SQUARE_MARK = re.compile(r"\[(?=/?[A-Z_]{2,30}\])")
# Control characters but newline and tab, what turns the direction of text, invisible marks, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff0-\ufffb]"
)


def harmless(text: str) -> str:
    """Without control characters and lone surrogates; marks of chat templates broken by a space."""
    if text.isprintable() and "<" not in text and "[" not in text:  # Nearly all are: spare them the rest.
        return text
    text = _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    # Broken up rather than cut out: what a cut leaves behind can be a mark again.
    return _SQUARE_MARK.sub("[ ", _ANGLE_MARK.sub("< ", text))


def shorten(text: str, most: int) -> str:
    """At most `most` characters, with an ellipsis in place of what is left out at the end."""
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def brief(value: Any, thing: Callable[[Any], str], most: int = 200) -> str:
    """A value as one line of about `most` characters at the most. `thing` names what is not plain data.

    Takes time in proportion to what it shows, not to the value.
    """
    parts: list[str] = []
    _show(value, thing, parts, most)
    return shorten("".join(parts), most)


def _show(value: Any, thing: Callable[[Any], str], parts: list[str], room: int) -> int:
    kind = type(value)
    if kind is str:
        text = repr(value if len(value) <= room else value[:room])
    elif value is None or kind is bool or kind is int:
        text = repr(value)
    elif kind is float:
        text = f"{value:.6g}"
    elif kind is list or kind is tuple or kind is set or kind is frozenset:
        start, end = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
        return _show_all(value, start, end, thing, parts, room)
    elif kind is dict:
        return _show_all(value.items(), "{", "}", thing, parts, room)
    else:
        text = thing(value)
    parts.append(text)
    return room - len(text)


def _show_all(
    values: Any, start: str, end: str, thing: Callable[[Any], str], parts: list[str], room: int
) -> int:
    parts.append(start)
    room -= 2
    for number, one in enumerate(values):
        if number:
            parts.append(", ")
            room -= 2
        if room <= 0:
            parts.append("…")
            break
        if end == "}" and start == "{" and type(values) is not set and type(values) is not frozenset:
            room = _show(one[0], thing, parts, room)
            parts.append(": ")
            room = _show(one[1], thing, parts, room - 2)
        else:
            room = _show(one, thing, parts, room)
    if end == ")" and len(values) == 1:
        parts.append(",")
    parts.append(end)
    return room
