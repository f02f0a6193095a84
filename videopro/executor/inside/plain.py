"""The plain form of values that are not plain data, used when they leave a program.

    dataclass instance            dict of its fields
    enum member                   its value
    Decimal, Fraction             float
    date, time, datetime          ISO 8601 text
    timedelta                     seconds, as a float
    bytes, bytearray              text, read as UTF-8; other bytes as \\xff
    range, deque, dict views      list

Named tuples, Counters, IntEnums and the like derive from plain data and cross as that.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

_LISTS: tuple[Any, ...] = (range, deque, type({}.keys()), type({}.values()), type({}.items()))


def pack_plain(value: Any, part: Callable[[Any], Any]) -> Any:
    """The plain form, as `wire.pack` takes it; `part` packs its parts. Raises TypeError if there is none."""
    if isinstance(value, _LISTS):
        return [part(item) for item in value]  # One by one: the bounds count as they come.
    return part(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (Decimal, Fraction)):
        return _number(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    raise TypeError(f"a {type(value).__name__}, which cannot leave the program{_advice(value)}")


def _number(value: Decimal | Fraction) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError) as error:
        raise TypeError(f"a {type(value).__name__} that is no float ({error})") from None


def _advice(value: Any) -> str:
    if hasattr(value, "__next__"):
        return ": make it a list"
    return ": only plain data and handles can"
