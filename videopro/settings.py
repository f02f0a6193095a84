"""Settings: one frozen dataclass a command, filled from a YAML file and from flags, with checked keys and
types.

Knows dataclasses, YAML and argparse; must not know what any setting means.
"""

from __future__ import annotations

import argparse
import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from videopro.errors import ConfigError

T = TypeVar("T")


def setting(help: str, *, positional: bool = False) -> dict[str, Any]:
    """The metadata of a setting's dataclass field: what it means, and whether the command line takes it
    without its name."""
    return {"help": help, "positional": positional}


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A hint for an unknown name: the nearest known one, else all of them."""
    match = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {match[0]!r}?" if match else f"known: {', '.join(known)}"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError for a missing or broken file, or for another shape."""
    try:
        content = _parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give an existing YAML file") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold 'key: value' lines, not a {type(content).__name__}")
    return content


def _parse_yaml(text: str) -> Any:
    """The value of a YAML text. ValueError for any other: dates and numbers that are none have errors of
    their own, as has deep nesting."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, OverflowError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("lists and mappings are nested too deep") from error


def build_settings(cls: type[T], given: Mapping[str, Any], where: str) -> T:
    """The dataclass `cls` filled with `given`, its own defaults for the rest.

    Raises ConfigError, beginning with `where`, for an unknown key (with the nearest known one), a value of
    another type or a missing required key.
    """
    known: dict[str, Field[Any]] = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in given.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown setting {key!r}; {did_you_mean(str(key), list(known))}")
        values[key] = _checked(value, hints[key], f"{where}: {key}")
    for name, one in known.items():
        if name not in values and one.default is MISSING and one.default_factory is MISSING:
            raise ConfigError(f"{where}: {name!r} is missing; {one.metadata['help']}")
    return cls(**values)


def from_command_line(
    cls: type[T], argv: Sequence[str], prog: str, description: str, ignore: Sequence[str] = ()
) -> T:
    """Fill `cls` from flags (one a field, `_` written `-`) over the file named by `--config`.

    A mapping field takes `key=value` words, whose values are read as YAML scalars, and is merged key by key.
    Keys of the file in `ignore` are left out (what a run wrote beside its settings). Raises ConfigError;
    `--help` prints and exits as argparse does.
    """
    parser = _Parser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="YAML file with the same settings; flags override it")
    hints = typing.get_type_hints(cls)
    for one in fields(cls):  # type: ignore[arg-type]
        _add_flag(parser, one, hints[one.name])
    flags, unknown = parser.parse_known_args(argv)
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        raise ConfigError(
            f"{prog}: unknown argument {unknown[0]!r}; {did_you_mean(unknown[0].split('=')[0], known)}"
        )
    given = vars(flags)
    config_file = given.pop("config")
    merged: dict[str, Any] = read_yaml(config_file) if config_file else {}
    for key in ignore:
        merged.pop(key, None)
    for key, value in given.items():
        if typing.get_origin(hints[key]) is dict:
            words = dict(_key_value(word, key) for word in value)
            below = merged.get(key) or {}
            if not isinstance(below, dict):
                raise ConfigError(f"{config_file}: {key} must be a mapping, not {below!r}")
            merged[key] = {**below, **words}
        else:
            merged[key] = value
    return build_settings(cls, merged, str(config_file) if config_file else prog)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog}: {message} (see --help)")


def _add_flag(parser: argparse.ArgumentParser, one: Field[Any], hint: Any) -> None:
    flag = "--" + one.name.replace("_", "-")
    kind = _plain(hint)
    origin = typing.get_origin(kind)
    default = "" if one.default in (MISSING, None, "") else f" (default: {one.default})"
    help = (one.metadata["help"] + default).replace("%", "%%")
    if one.metadata["positional"]:
        # Optional to argparse: `build_settings` says what is missing, wherever it should have come from.
        parser.add_argument(
            one.name,
            nargs="*" if origin is tuple else "?",
            metavar=one.name.upper(),
            default=argparse.SUPPRESS,
            help=help,
        )
    elif kind is bool:
        action = argparse.BooleanOptionalAction
        parser.add_argument(flag, action=action, default=argparse.SUPPRESS, help=help)
    elif origin in (dict, tuple):
        metavar = "KEY=VALUE" if origin is dict else one.name.upper()
        parser.add_argument(
            flag, nargs="+", action="extend", metavar=metavar, default=argparse.SUPPRESS, help=help
        )
    else:
        metavar = {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")
        convert = {int: int, float: float}.get(kind, str)
        parser.add_argument(flag, type=convert, metavar=metavar, default=argparse.SUPPRESS, help=help)


def _key_value(word: str, flag: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise ConfigError(f"--{flag.replace('_', '-')}: {word!r} must have the form key=value")
    try:
        return key, _parse_yaml(value) if value else ""
    except ValueError as error:
        raise ConfigError(
            f"--{flag.replace('_', '-')}: {word!r}: the value cannot be read: {error}"
        ) from error


def _plain(hint: Any) -> Any:
    """The type without `| None`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "a path"}


def _checked(value: Any, hint: Any, name: str) -> Any:
    if value is None and type(None) in typing.get_args(hint):
        return None
    kind = _plain(hint)
    origin = typing.get_origin(kind)
    if origin is dict:
        if isinstance(value, dict):
            return value
        raise ConfigError(f"{name} is {value!r}; it must be a mapping")
    if origin is tuple:
        # One word stands for a list of one: `ids: q7` and `ids: [q7]` say the same.
        parts = [value] if isinstance(value, str) else value
        if isinstance(parts, list | tuple):
            return tuple(str(part) for part in parts)
        raise ConfigError(f"{name} is {value!r}; it must be a list")
    if origin is typing.Literal:
        if value in typing.get_args(kind):
            return value
        raise ConfigError(
            f"{name} is {value!r}; it must be one of {', '.join(map(str, typing.get_args(kind)))}"
        )
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, kind) and not (kind in (int, float) and isinstance(value, bool)):
        return value
    raise ConfigError(f"{name} is {value!r}; it must be {_WORDS[kind]}")
