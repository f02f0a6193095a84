"""Handles, what a program holds instead of a video, a frame or an answer; and the plain form of other values.

A handle has an id that only the host can resolve, a kind, and a few read-only values. Handles are equal and
hashed by id, so they can be dict keys. A prelude defines the behaviour of a kind's handles with `class
Kind(Handle)`. Forging a handle gains nothing: the host knows which ids it gave to this program.

Values that are not plain data take a plain form when they leave a program:

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
from collections.abc import Callable, Mapping
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


class Handle:
    """One host object. Its declared values are its attributes."""

    __slots__ = ("_fields", "_id")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"a {type(self).__name__} cannot be made by a program: the modules give them")

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that the class does not have.
        fields = object.__getattribute__(self, "_fields")
        try:
            return fields[name]
        except KeyError:
            attributes = ", ".join(fields) or "none"
            message = (
                f"{type(self).__name__!r} object has no attribute {name!r}; its attributes: {attributes}"
            )
            raise AttributeError(message, name=name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} is read-only", name=name)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is read-only", name=name)

    def __eq__(self, other: object) -> Any:
        return self._id == other._id if isinstance(other, Handle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"
        )

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._fields})

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, memo: Any) -> Handle:
        return self


class Handles:
    """The handles of one program."""

    def __init__(self) -> None:
        self._classes: dict[str, type[Handle]] = {}
        self._handles: dict[int, Handle] = {}

    def learn(self, space: Mapping[str, Any]) -> None:
        """Collect the handle classes among a prelude's names."""
        for name, value in space.items():
            if isinstance(value, type) and issubclass(value, Handle) and value is not Handle:
                self._classes[name] = value

    def unpack(self, content: Any, unpack: Callable[[Any], Any]) -> Handle:
        """The handle of the host's [id] or, the first time, [id, kind, fields]."""
        handle = self._handles.get(content[0])
        if handle is not None:
            return handle
        number, kind, fields = content
        cls = self._classes.get(kind)
        if cls is None:
            cls = self._classes[kind] = type(kind, (Handle,), {"__slots__": ()})
        handle = object.__new__(cls)
        values: dict[str, Any] = {}
        object.__setattr__(handle, "_id", number)
        object.__setattr__(handle, "_fields", values)
        # Registered before its fields are read: they may refer back to it.
        self._handles[number] = handle
        for name, value in fields.items():
            values[name] = unpack(value)
        return handle

    def pack(self, value: Any, part: Callable[[Any], Any]) -> Any:
        """Pack a value that is not plain data for the host."""
        if isinstance(value, Handle):
            return {"h": value._id}
        return pack_plain(value, part)
