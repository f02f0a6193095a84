"""Which options of a method a client may set: numbers and choices. Those that name a model, a server or a
file are the operator's, since they would load, call or read whatever a client names."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Literal

from videopro.cli import did_you_mean, is_setting, plain_type
from videopro.methods import METHODS
from videopro.serve.problems import Problem

_NUMBERS: Mapping[Any, str] = {bool: "boolean", int: "integer", float: "number"}
_MOST = 4096
"""Of frames, steps, tokens and whatever else a client counts: more would fill the memory first."""
# What a number of these is decides how much of the machine one question takes.
_OPERATORS = frozenset({"max_parallel", "module_seconds", "max_seconds", "preset"})


def offered_methods() -> list[dict[str, Any]]:
    """The methods, with the options that a client may set."""
    return [
        {
            "id": name,
            "open_questions": method.answers_open_questions,
            "options": [_described(option, kind) for option, kind in _offered(method.Settings)],
        }
        for name, method in METHODS.items()
    ]


def check_offered(method: str, options: Mapping[str, Any]) -> None:
    """Raise Problem for a method that is none, and for an option that a client may not set."""
    if method not in METHODS:
        message = f"unknown method {method!r}; {did_you_mean(method, list(METHODS))}"
        raise Problem(400, message, code="unknown_method", param="videopro.method")
    settings = METHODS[method].Settings
    offered = {option.name: kind for option, kind in _offered(settings)}
    for name, value in options.items():
        param = f"videopro.options.{name}"
        if name not in offered:
            if name in {option.name for option in fields(settings)}:
                reason = "is the operator's to set, as it names a model, a file or a share of the machine"
                message = f"option {name!r} of method {method!r} {reason}: leave it out"
                raise Problem(403, message, code="operators_option", param=param)
            message = f"method {method!r} has no option {name!r}; {did_you_mean(name, sorted(offered))}"
            raise Problem(400, message, code="unknown_option", param=param)
        # A text that is a number would be read as one.
        if isinstance(value, str) and not _chooses(offered[name]):
            raise Problem(400, f"option {name!r} is a text; it must be a number", param=param)
        if isinstance(value, int | float) and not abs(value) <= _MOST:
            raise Problem(400, f"option {name!r} is {value}; at most {_MOST} is offered", param=param)


def _offered(settings: Any) -> Iterator[tuple[Field[Any], dict[str, Any]]]:
    hints = typing.get_type_hints(settings)
    for option in fields(settings):
        kind = _kind(hints[option.name])
        if is_setting(option) and kind is not None and option.name not in _OPERATORS:
            yield option, kind


def _kind(hint: Any) -> dict[str, Any] | None:
    """The JSON Schema of a number or a choice; None for anything else."""
    plain = plain_type(hint)
    if plain in _NUMBERS:
        return {"type": _NUMBERS[plain]}
    origin = typing.get_origin(plain)
    if origin is Literal:
        return {"enum": list(typing.get_args(plain))}
    if origin in (typing.Union, types.UnionType):
        kinds = [_kind(each) for each in typing.get_args(plain) if each is not type(None)]
        return {"anyOf": kinds} if all(kinds) else None
    return None


def _chooses(kind: Mapping[str, Any]) -> bool:
    return "enum" in kind or any(map(_chooses, kind.get("anyOf", ())))


def _described(option: Field[Any], kind: Mapping[str, Any]) -> dict[str, Any]:
    default = None if option.default is MISSING else option.default
    return {"name": option.name, "description": option.metadata["help"], "default": default, **kind}
