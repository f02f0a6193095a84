"""Strict reading of JSON from outside.

The result is plain data that the rest of the program can walk, compute with and write, or else InvalidJson.
Python's own parser accepts infinite numbers and lone surrogates, and raises other errors for deep nesting.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from videopro.errors import VideoProError
from videopro.storage.storable import DEPTH, DIGITS, encodable

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T")

# Characters of an invalid value that a message shows.
_SHOWN = 100
_WITHOUT_VALUE = ("missing", "unexpected_keyword_argument", "extra_forbidden")


class InvalidJson(ValueError):
    """Text that is not JSON, or that holds values which cannot be used; the message says which."""


def parse_json(text: str | bytes, *, infinite: bool = False) -> Any:
    """The value of a JSON text (bytes: UTF-8, with or without a byte order mark).

    Lone surrogates become U+FFFD. Raises InvalidJson for anything but JSON, for NaN and infinite numbers
    (unless `infinite`: Python's own writers produce them), numbers too large for a float, duplicate keys, and
    nesting deeper than DEPTH.
    """
    try:
        plain = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"not UTF-8: {error.reason} at byte {error.start}") from None
    decoder = _LENIENT if infinite else _STRICT
    return _plain(_decoded(lambda: decoder.decode(plain)), plain)


def parse_json_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends; text may follow. Raises InvalidJson as
    `parse_json` does."""
    value, end = _decoded(lambda: _STRICT.raw_decode(text, start))
    return _plain(value, text[start:end]), end


def parse_json_list(text: str) -> Any:
    """As `parse_json`, but an element of a list that is not JSON is returned as an InvalidJson object. Raises
    InvalidJson if the elements cannot be separated."""
    try:
        return parse_json(text)
    except InvalidJson as error:
        if not (opening := _LIST.match(text)):
            raise
        return list(_parts(text, opening.end(), error))


def first_mistake(error: ValidationError) -> str:
    """The first thing that does not fit a type, in pydantic's words: its place, and what is expected
    there."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    # Of what is missing the input is all that is there, and a name too many is wrong whatever its value.
    given = "" if first["type"] in _WITHOUT_VALUE else f", not {str(first['input'])[:_SHOWN]!r}"
    return f"{place}: {first['msg']}{given}" if place else f"{first['msg']}{given}"


def read_object(text: str | bytes, where: str, error: type[VideoProError]) -> dict[str, Any]:
    """Parse a JSON object. Raises `error`, naming `where` and the fix, for anything else."""
    try:
        record = parse_json(text)
    except InvalidJson as reason:
        raise error(f"{where}: invalid JSON ({reason}); write one object per line") from reason
    if not isinstance(record, dict):
        raise error(f"{where}: must be an object, not {type(record).__name__}")
    return record


_LIST = re.compile(r"\ufeff?\s*\[")
# A whole string at a time, so that brackets and commas inside it do not count. Its closing mark is optional:
# a torn one continues to the end of the text.
_MARK = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},]', re.DOTALL)


def _parts(text: str, start: int, error: InvalidJson) -> Iterator[Any]:
    depth = 0
    for mark in _MARK.finditer(text, start):
        if depth == 0 and mark[0] in (",", "]"):
            try:
                yield parse_json(text[start : mark.start()])
            except InvalidJson as broken:
                yield broken
            start = mark.end()
            if mark[0] == "]":
                break
        depth += (mark[0] in "[{") - (mark[0] in "]}")
    # The brackets do not match, so the elements cannot be separated: what the parser said of the whole
    # stands.
    if depth or text[start - 1] != "]" or text[start:].strip():
        raise error


def _decoded(decode: Callable[[], T]) -> T:
    """Call `decode`; every error becomes InvalidJson."""
    try:
        return decode()
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(str(error)) from None
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None


def _plain(value: Any, text: str) -> Any:
    """The value with encodable strings. Raises InvalidJson if it is nested too deep."""
    _check_depth(value)
    # Walking every value is slow, and hardly any text has a surrogate. An escaped one begins with \ud or \uD.
    may_hold = "\\ud" in text or "\\uD" in text or not (text.isascii() or encodable(text) == text)
    return _encodable(value) if may_hold else value


_TOO_DEEP = f"lists and objects are nested more than {DEPTH} deep"


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise InvalidJson(f"{_short(digits)} is too large a number")
    return value


def _int(digits: str) -> int:
    # Before int(): Python takes quadratic time for long ones, and refuses those of more than 4,300 digits.
    if len(digits.lstrip("-")) > DIGITS:
        raise InvalidJson(f"{_short(digits)} is too large a number ({len(digits)} digits)")
    return int(digits)


def _constant(name: str) -> float:
    raise InvalidJson(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A key that stands twice has two values in different readers; Python would silently take the last one.
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise InvalidJson(f"an object has the key {encodable(_short(twice))!r} twice")
    return record


# Not orjson, which reads a trace in a quarter of this one's time: it takes the last of equal keys without a
# word, turns integers beyond 64 bits into floats, and refuses half of a surrogate pair, which models write.
_STRICT = json.JSONDecoder(
    parse_float=_float, parse_int=_int, parse_constant=_constant, object_pairs_hook=_object
)
_LENIENT = json.JSONDecoder(parse_float=_float, parse_int=_int, object_pairs_hook=_object)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def _check_depth(value: Any) -> None:
    # Level by level, not recursively: it is what keeps the recursive code from running out of stack.
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(DEPTH):
        if not level:
            return
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
    if level:
        raise InvalidJson(_TOO_DEEP)


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {encodable(key): _encodable(item) for key, item in value.items()}
    return value
