"""The wire between the host and a program's process: framed messages, and values as tagged JSON.

Both ends use this file; neither trusts the other with more than JSON. A frame is one byte of kind, four bytes
of length, and the text. Plain data crosses by value: None, bool, int, float and str as themselves, lists as
JSON lists, everything else as an object with a single key, its tag. Handles cross as `{"h": ...}`, packed and
unpacked by a function of each end.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

HEADER = struct.Struct(">cI")

# From the host.
START = b"s"
VALUE = b"v"
RAISE = b"r"
STOP = b"x"
# From the program's process, before the program runs: it is confined, or a restriction cannot be applied.
READY = b"y"
SETUP_FAILED = b"w"
# From the program's process.
CALL = b"c"
PRINT = b"o"
RESULT = b"d"
ERROR = b"e"
# The first letters of what CPython's faulthandler writes to the same socket just before the process dies:
# "Stack (most recent call first)" and "Fatal Python error". Such a frame has no length; it continues to
# the end.
DUMPS = (b"S", b"F")

KEYS = 1000
"""How many keys and members whose hash can be chosen may cross: colliding ones cost quadratic time."""
# Smaller integers are their own hash.
_OWN_HASH = sys.hash_info.modulus
_SURROGATES = re.compile("[\ud800-\udfff]")


class TooLarge(ValueError):
    """A value that exceeds the bounds of the wire."""


# JSONEncoder.encode constructs this for every text, which costs more than encoding a short one.
_encode = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, None, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)


def frame(kind: bytes, payload: Any) -> bytes:
    """A message as bytes. `payload`: JSON data whose values are packed."""
    body = "".join(_encode(payload, 0)).encode("ascii")
    return HEADER.pack(kind, len(body)) + body


@cache
def _scan(digits: int) -> Callable[[str], tuple[Any, int]]:
    def integer(text: str) -> int:
        # Before it is converted, which takes quadratic time.
        if len(text.lstrip("-")) > digits:
            raise ValueError("an integer of too many digits")
        return int(text)

    return json.JSONDecoder(parse_int=integer).raw_decode


def parse(text: str, digits: int) -> Any:
    """Parse JSON text whose integers have at most so many digits. Raises ValueError or RecursionError for
    invalid or malicious text."""
    value, end = _scan(digits)(text)
    if end != len(text):
        raise ValueError("more than one value")
    return value


@cache
def _beyond(digits: int) -> int:
    return int(10**digits)


def _is_odd(key: Any) -> bool:
    """Whether a packed key's hash can be chosen: it is not text, a handle or an ordinary number."""
    kind = type(key)
    if kind is dict:
        return "h" not in key
    return kind is list or (kind is int and not -_OWN_HASH < key < _OWN_HASH)


def _encodable(text: str) -> str:
    """The text without lone surrogates, which cannot be encoded for files and sockets."""
    return text if text.isascii() else _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def pack(
    value: Any,
    other: Callable[[Any, Callable[[Any], Any]], Any],
    *,
    items: int,
    size: int,
    depth: int,
    digits: int,
    keys: int = 1 << 62,
) -> Any:
    """Convert plain data to JSON data.

    `other` packs a value that is not plain, given the value and a function that packs its parts, or raises
    TypeError. Bounds: `items` values, about `size` bytes of JSON, nesting of `depth`, integers of `digits`
    digits, and `keys` keys and members that are neither text nor ordinary numbers. Values are counted as they
    are visited, so that shared references cannot explode. Raises TooLarge.
    """
    kind = type(value)
    # Most arguments and results are one of these; the closures below cost more than they do.
    if value is None or kind is bool or kind is float or (kind is str and len(value) < size):
        return value
    beyond = _beyond(digits)
    count = 0
    spent = 0
    odd = 0

    def key(item: Any, left: int) -> Any:
        nonlocal odd
        packed = walk(item, left)
        odd += _is_odd(packed)
        if odd > keys:
            raise TooLarge(f"it holds more than {keys:,} keys or members that are no text or number")
        return packed

    def spend(more: int) -> None:
        nonlocal count, spent
        count += 1
        spent += more
        if count > items:
            raise TooLarge(f"it holds more than {items:,} values")
        if spent > size:
            raise TooLarge(f"it is larger than {size:,} bytes")

    def walk(item: Any, left: int) -> Any:
        kind = type(item)
        if kind is str:
            spend(len(item) + 2)
            return item
        if item is None or kind is float or kind is bool:
            spend(4)
            return item
        if kind is int:
            if not -beyond < item < beyond:
                raise TooLarge(f"it holds an integer of {item.bit_length():,} bits, beyond {digits} digits")
            spend(4)
            return item
        spend(2)
        if left <= 0:
            raise TooLarge(f"it is nested more than {depth} deep")
        left -= 1
        if kind is list:
            return [walk(part, left) for part in item]
        if kind is tuple:
            return {"t": [walk(part, left) for part in item]}
        if kind is dict:
            return {"d": [[key(name, left), walk(part, left)] for name, part in item.items()]}
        return subclass(item, left)

    def subclass(item: Any, left: int) -> Any:
        """Sets, and what derives from plain data (a Counter, a named tuple, an IntEnum): as its base."""
        if isinstance(item, str):
            return walk(str.__str__(item), left + 1)
        if isinstance(item, int):
            return walk(int.__int__(item), left + 1)
        if isinstance(item, float):
            return walk(float.__float__(item), left + 1)
        if isinstance(item, list):
            return [walk(part, left) for part in list.__iter__(item)]
        if isinstance(item, tuple):
            return {"t": [walk(part, left) for part in tuple.__iter__(item)]}
        if isinstance(item, dict):
            return {"d": [[key(name, left), walk(part, left)] for name, part in dict.items(item)]}
        if isinstance(item, set):
            return {"s": [key(part, left) for part in set.__iter__(item)]}
        if isinstance(item, frozenset):
            return {"z": [key(part, left) for part in frozenset.__iter__(item)]}
        return other(item, lambda part: walk(part, left))

    return walk(value, depth)


def unpack(packed: Any, handle: Callable[[Any], Any], *, items: int, depth: int, keys: int = 1 << 62) -> Any:
    """The inverse of `pack`; `handle` resolves an `{"h": ...}`.

    Lone surrogates in text become the replacement character. Raises ValueError or TypeError for anything that
    `pack` does not produce, and TooLarge beyond the bounds.
    """
    if type(packed) is str:
        return _encodable(packed)
    if type(packed) is not list and type(packed) is not dict:
        return packed
    count = 0
    odd = 0

    def key(item: Any, left: int) -> Any:
        nonlocal odd
        odd += _is_odd(item)
        if odd > keys:  # Before it is put in its place.
            raise TooLarge(f"it holds more than {keys:,} keys or members that are no text or number")
        return walk(item, left)

    def walk(item: Any, left: int) -> Any:
        nonlocal count
        count += 1
        if count > items:
            raise TooLarge(f"it holds more than {items:,} values")
        kind = type(item)
        if kind is list:
            if left <= 0:
                raise TooLarge(f"it is nested more than {depth} deep")
            return [walk(part, left - 1) for part in item]
        if kind is str:
            return _encodable(item)
        if kind is not dict:
            return item
        if left <= 0:
            raise TooLarge(f"it is nested more than {depth} deep")
        ((tag, content),) = item.items()
        if tag == "h":
            return handle(content)
        if type(content) is not list:
            raise ValueError("a tag without its list")
        if tag == "d":
            return {key(name, left - 1): walk(part, left - 1) for name, part in content}
        if tag == "t":
            return tuple([walk(part, left - 1) for part in content])
        if tag == "s":
            return {key(part, left - 1) for part in content}
        if tag == "z":
            return frozenset([key(part, left - 1) for part in content])
        raise ValueError("an unknown tag")

    return walk(packed, depth)
