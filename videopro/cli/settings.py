"""Settings: one frozen dataclass per command, method or model, filled from mappings, with checked keys and
types (pydantic). Where a command's come from: `videopro.cli.command_line`. What a setting means is up to its
owner.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from videopro.errors import ConfigError

T = TypeVar("T")
ClientMay = Literal["any", "less", "frames"]
"""What a server's client may set: any value; at most the operator's value, where unset is no limit; or at
most the operator's value, where unset is the model's frame budget."""

# Characters of an invalid value that a message shows.
_VALUE_CHARS = 200


def setting(
    help: str,
    *,
    positional: bool = False,
    group: str = "",
    joined: bool = False,
    client: ClientMay | None = None,
    answers: bool | None = None,
) -> dict[str, Any]:
    """The metadata of a setting's dataclass field: its help text, whether it is a positional argument, its
    heading in --help, whether its flag takes several words, joined by commas, what a server's client may set
    (None: only the operator sets it), and, for a setting of a method or a model, whether it can change an
    answer and so is part of a run's key (None: as if it could)."""
    return {
        "help": help,
        "positional": positional,
        "group": group,
        "joined": joined,
        "client": client,
        "answers": answers,
    }


def option(default: Any, help: str, **about: Any) -> Any:
    """A dataclass field for a setting with this default; `dict` is an empty one. Other arguments as in
    `setting`."""
    if default is dict:
        return field(default_factory=dict, metadata=setting(help, **about))
    return field(default=default, metadata=setting(help, **about))


def check_least(settings: object, least: int, *names: str, where: str = "") -> None:
    """Raise ConfigError for one of these settings that is set, and below `least`, 0 or 1. `where`: the
    beginning of the message."""
    allowed = "at least 1" if least else "0 or more"
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < least:
            raise ConfigError(f"{where}{name} is {value}; it must be {allowed}")


def answering_settings(settings: Any) -> dict[str, Any]:
    """The settings that can change an answer, for a run's key: all that are not marked otherwise."""
    values = asdict(settings)
    return {
        option.name: values[option.name]
        for option in fields(settings)
        if option.metadata.get("answers") is not False
    }


def is_setting(option: Field[Any]) -> bool:
    """Whether a user can set this field of a settings class. A run determines the other fields itself; they
    are there because they are part of its key."""
    return "help" in option.metadata


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """A hint for an unknown name: the closest known name, or all known names."""
    match = difflib.get_close_matches(name, choices, n=1)
    return f"did you mean {match[0]!r}?" if match else f"known: {', '.join(choices)}"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError if the file is missing, broken or not a mapping."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); pass an existing YAML file") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must contain 'key: value' lines, not a {type(content).__name__}")
    return content


def parse_yaml(text: str) -> Any:
    """The value of a YAML text. Raises ValueError for invalid YAML, including invalid dates, invalid numbers
    and deep nesting."""
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        # Its text has five lines, with a sketch of the place.
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ValueError(where + ", ".join(filter(None, (error.context, error.problem)))) from error
    except (yaml.YAMLError, OverflowError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("lists and mappings are nested too deeply") from error


def build_settings(cls: type[T], mapping: Mapping[str, Any], where: str) -> T:
    """The dataclass `cls` filled with `mapping`, with defaults for missing keys.

    Raises ConfigError, prefixed with `where`, for an unknown key (with the closest known one), a value of
    the wrong type or a missing required key.
    """
    options: dict[str, Field[Any]] = {option.name: option for option in fields(cls)}  # type: ignore[arg-type]
    settable = [name for name, option in options.items() if is_setting(option)]
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in mapping.items():
        if key not in options:
            raise ConfigError(f"{where}: unknown setting {key!r}; {did_you_mean(str(key), settable)}")
        values[key] = _checked(value, hints[key], f"{where}: {key}")
    # What is said without a flag is missed first: settings that commands share come before it in the class.
    for name, option in sorted(options.items(), key=lambda each: not each[1].metadata.get("positional")):
        if name not in values and option.default is MISSING and option.default_factory is MISSING:
            raise ConfigError(f"{where}: {name!r} is missing ({option.metadata['help']})")
    return cls(**values)


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, later ones over earlier ones. A mapping among them is laid over another key by key."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(below, Mapping) and isinstance(value, Mapping):
                value = merged(below, value)
            result[key] = value
    return result


def plain_type(hint: Any) -> Any:
    """The type of a setting without `| None`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[tuple(part for part in typing.get_args(hint) if part is not type(None))]  # noqa: UP007
    return hint


def own_first(cls: type, options: Sequence[Field[Any]]) -> list[Field[Any]]:
    """A class's own settings first, then the inherited ones, which --help shows below."""
    owners = [vars(owner).get("__annotations__", {}) for owner in cls.__mro__]
    return sorted(
        options, key=lambda option: next(i for i, names in enumerate(owners) if option.name in names)
    )


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Path: "a path"}

# YAML reads an id such as 007 or a name such as 2024 as a number; a text may be given without quotes.
_LENIENT = ConfigDict(coerce_numbers_to_str=True)


def _checked(value: Any, hint: Any, name: str) -> Any:
    """The value converted to its type by pydantic. Raises ConfigError."""
    kind = plain_type(hint)
    if typing.get_origin(kind) is tuple and isinstance(value, str):
        # A single word is a list of length 1: `ids: q7` and `ids: [q7]` mean the same.
        value = [value]
    if isinstance(value, bool) and {"on", "off"} <= set(typing.get_args(kind)):
        # YAML reads on and off as true and false.
        value = "on" if value else "off"
    try:
        kinds = typing.get_args(kind) if typing.get_origin(kind) is typing.Union else (kind,)
        if isinstance(value, bool) and bool not in kinds and {int, float, str}.intersection(kinds):
            raise ValueError("true and false are not numbers or text")
        return TypeAdapter(hint, config=_LENIENT).validate_python(value)
    except ValueError as error:
        raise ConfigError(f"{name} is {_short(value)}; it must be {_requirement(kind, error)}") from error


def _short(value: Any) -> str:
    """The repr of an invalid value, for a message."""
    text = repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."


def _requirement(kind: Any, error: ValueError) -> str:
    """What a value of this type must be, in words."""
    origin = typing.get_origin(kind)
    if origin is typing.Union:
        parts = typing.get_args(kind)
        # A whole number is a number.
        return " or ".join(
            _requirement(part, error) for part in parts if part is not int or float not in parts
        )
    if origin is typing.Literal:
        names = ", ".join(map(str, typing.get_args(kind)))
        return f"one of {names}" if "," in names else names
    if origin in (dict, tuple):
        outer = "a mapping" if origin is dict else "a list"
        inner = error.errors()[0] if isinstance(error, ValidationError) else {"loc": ()}
        return outer if not inner["loc"] else f"{outer}; {inner['loc'][0]!r} in it: {inner['msg']}"
    return _TYPE_NAMES.get(kind, str(error))
