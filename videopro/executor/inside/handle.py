"""Handles: what a program holds instead of a video, a frame or an answer.

A handle has an id that only the host can resolve, a kind, and a few read-only values. Handles are equal and
hashed by id, so they can be dict keys. A prelude defines the behaviour of a kind's handles with `class
Kind(Handle)`. Forging a handle gains nothing: the host knows which ids it gave to this program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .plain import pack_plain


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
