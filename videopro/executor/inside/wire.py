"""The wire between the host and a program's process: framed messages, and values as tagged JSON.

Both ends use this file; neither trusts the other with more than JSON. A frame is one byte of kind, four of
length, and the text. Plain data crosses by value: None, bool, int, float and str as themselves, lists as
JSON lists, everything else as an object with one key, its tag. What else there is (handles) crosses as
`{"h": ...}` by a function that each end brings. Nothing here knows processes, limits of time, or what a
handle is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

HEADER = struct.Struct(">cI")

# From the host.
START = b"s"
VALUE = b"v"
RAISE = b"r"
STOP = b"x"
# From the program's process.
CALL = b"c"
PRINT = b"o"
RESULT = b"d"
ERROR = b"e"
# The first letters of what CPython's faulthandler writes to the same socket just before the process dies:
# "Stack (most recent call first)" and "Fatal Python error". Such a frame has no length; it goes on to the
# end.
DUMPS = (b"S", b"F")

INT_BITS = 1024
"""Wider integers do not cross: turning them into text takes quadratic time."""
_INT_DIGITS = 320


class TooLarge(ValueError):
    """A value beyond the bounds of the wire."""


# What JSONEncoder.encode makes anew for each text, at more than the text's own cost when that is short.
_encode = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)


def frame(kind: bytes, payload: Any) -> bytes:
    """A message as bytes. `payload`: what JSON holds, its values packed."""
    body = "".join(_encode(payload, 0)).encode("ascii")
    return HEADER.pack(kind, len(body)) + body


def _whole(digits: str) -> int:
    if len(digits) > _INT_DIGITS:
        raise ValueError("an integer of too many digits")
    return int(digits)


_scan = json.JSONDecoder(parse_int=_whole).raw_decode


def parse(text: str) -> Any:
    """JSON text to Python. Raises ValueError or RecursionError for text that is none, or a bomb."""
    value, end = _scan(text)
    if end != len(text):
        raise ValueError("more than one value")
    return value


def pack(
    value: Any, other: Callable[[Any, Callable[[Any], Any]], Any], *, items: int, size: int, depth: int
) -> Any:
    """Turn plain data into what JSON holds.

    `other` packs whatever is not plain, given it and a function that packs its parts, or raises TypeError.
    At most `items` values, about `size` bytes of JSON, nested at most `depth` deep; counted as they are met,
    so that shared references cannot explode. Raises TooLarge.
    """
    kind = type(value)
    if value is None or kind is bool or kind is float or (kind is str and len(value) < size):
        return value
    count = 0
    spent = 0

    def spend(more: int) -> None:
        nonlocal count, spent
        count += 1
        spent += more
        if count > items:
            raise TooLarge(f"it holds more than {items:,} values")
        if spent > size:
            raise TooLarge(f"it is larger than {size:,} bytes")

    def walk(one: Any, left: int) -> Any:
        kind = type(one)
        if kind is str:
            spend(len(one) + 2)
            return one
        if one is None or kind is float or kind is bool:
            spend(4)
            return one
        if kind is int:
            if one.bit_length() > INT_BITS:
                raise TooLarge(f"it holds an integer of {one.bit_length():,} bits, more than {INT_BITS:,}")
            spend(4)
            return one
        spend(2)
        if left <= 0:
            raise TooLarge(f"it is nested more than {depth} deep")
        left -= 1
        if kind is list:
            return [walk(part, left) for part in one]
        if kind is tuple:
            return {"t": [walk(part, left) for part in one]}
        if kind is dict:
            return {"d": [[walk(key, left), walk(part, left)] for key, part in one.items()]}
        return subclass(one, left)

    def subclass(one: Any, left: int) -> Any:
        """Sets, and what derives from plain data (a Counter, a named tuple, an IntEnum): as its base."""
        if isinstance(one, str):
            return walk(str.__str__(one), left + 1)
        if isinstance(one, int):
            return walk(int.__int__(one), left + 1)
        if isinstance(one, float):
            return walk(float.__float__(one), left + 1)
        if isinstance(one, list):
            return [walk(part, left) for part in list.__iter__(one)]
        if isinstance(one, tuple):
            return {"t": [walk(part, left) for part in tuple.__iter__(one)]}
        if isinstance(one, dict):
            return {"d": [[walk(key, left), walk(part, left)] for key, part in dict.items(one)]}
        if isinstance(one, set):
            return {"s": [walk(part, left) for part in set.__iter__(one)]}
        if isinstance(one, frozenset):
            return {"z": [walk(part, left) for part in frozenset.__iter__(one)]}
        return other(one, lambda part: walk(part, left))

    return walk(value, depth)


def unpack(packed: Any, handle: Callable[[Any], Any], *, items: int, depth: int) -> Any:
    """The plain data that `pack` packed; `handle` makes what stands behind an `{"h": ...}`.

    Raises ValueError or TypeError for anything that `pack` does not make, and TooLarge beyond the bounds
    (integer keys can be chosen to collide: few of them keep that cheap).
    """
    if type(packed) is not list and type(packed) is not dict:
        return packed
    count = 0

    def walk(one: Any, left: int) -> Any:
        nonlocal count
        count += 1
        if count > items:
            raise TooLarge(f"it holds more than {items:,} values")
        kind = type(one)
        if kind is list:
            if left <= 0:
                raise TooLarge(f"it is nested more than {depth} deep")
            return [walk(part, left - 1) for part in one]
        if kind is not dict:
            return one
        if left <= 0:
            raise TooLarge(f"it is nested more than {depth} deep")
        ((tag, content),) = one.items()
        if tag == "h":
            return handle(content)
        if type(content) is not list:
            raise ValueError("a tag without its list")
        if tag == "d":
            return {walk(key, left - 1): walk(part, left - 1) for key, part in content}
        parts = [walk(part, left - 1) for part in content]
        if tag == "t":
            return tuple(parts)
        if tag == "s":
            return set(parts)
        if tag == "z":
            return frozenset(parts)
        raise ValueError("an unknown tag")

    return walk(packed, depth)
