"""The host's side of handles: a table, one per run, of the objects that a program holds, by number.

A program can only name objects that it was given; any other number is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from videopro.executor.inside import wire
from videopro.executor.outcome import Limits
from videopro.executor.text import shorten


class ProtocolViolation(ValueError):
    """The program's process sent something that violates the protocol."""


class HandleTable:
    """The host objects that one program was given."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []

    def pack(self, value: Any, size: int) -> Any:
        """Pack a value for the program: plain data as it is, anything else as a handle.

        An object's declared fields are read the first time it crosses. Raises TooLarge; the program then
        holds none of its handles.
        """
        before = len(self._objects)
        try:
            return wire.pack(
                value,
                self._pack_handle,
                items=size // 2,
                size=size,
                depth=self._limits.depth,
                digits=self._limits.digits,
            )
        except BaseException:
            # Otherwise it could name objects of a result that it never got.
            for added in self._objects[before:]:
                del self._numbers[id(added)]
            del self._objects[before:]
            raise

    def _pack_handle(self, value: Any, part: Callable[[Any], Any]) -> Any:
        # By identity, not equality: two frames with equal fields are two objects. The table keeps them alive,
        # so that no id is used again.
        number = self._numbers.get(id(value))
        if number is not None:
            return {"h": [number]}
        number = self._numbers[id(value)] = len(self._objects)
        self._objects.append(value)
        kind, names = declared_fields(value)
        return {"h": [number, kind, {name: part(getattr(value, name)) for name in names}]}

    def unpack(self, packed: Any) -> Any:
        """Unpack a value from the program. Raises ProtocolViolation for an invalid one."""
        try:
            return wire.unpack(
                packed,
                self._object,
                items=self._limits.items + 2,
                depth=self._limits.depth + 2,
                keys=wire.KEYS,
            )
        except (ValueError, TypeError) as error:
            raise ProtocolViolation(str(error)) from error

    def _object(self, number: Any) -> Any:
        # type(), because isinstance would let True through as 1.
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise ProtocolViolation("a handle that was never given")
        return self._objects[number]


def declared_fields(value: Any) -> tuple[str, tuple[str, ...]]:
    """The kind and the field names of a host object, as its class declares them."""
    cls = type(value)
    return getattr(cls, "__program_kind__", cls.__name__), getattr(cls, "__program_fields__", ())


def handle_repr(value: Any) -> str:
    """A host object in a log: its class's own repr, else `Clip(start=10, end=20)`."""
    class_repr: object = type(value).__repr__
    if class_repr is not object.__repr__:
        return shorten(repr(value), 120)
    kind, names = declared_fields(value)
    parts = []
    for name in names:
        field = getattr(value, name)
        if field is None or isinstance(field, (bool, int, float, str)):
            text = f"{field:.6g}" if isinstance(field, float) else repr(field)
            parts.append(f"{name}={shorten(text, 60)}")
    return f"{kind}({', '.join(parts)})"
