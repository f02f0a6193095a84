"""Settings: one frozen dataclass per command, filled from a YAML file and from flags, with checked keys and
types. What a setting means is up to the command.
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


def setting(help: str, *, positional: bool = False, former: str = "") -> dict[str, Any]:
    """The metadata of a setting's dataclass field: its help text, whether it is a positional argument of the
    command line, and its name in earlier versions, which is still accepted."""
    return {"help": help, "positional": positional, "former": former}


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A hint for an unknown name: the closest known name, or else all known names."""
    match = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {match[0]!r}?" if match else f"known: {', '.join(known)}"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError if the file is missing, broken or not a mapping."""
    try:
        content = _parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give an existing YAML file") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must contain 'key: value' lines, not a {type(content).__name__}")
    return content


def _parse_yaml(text: str) -> Any:
    """The value of a YAML text. Raises ValueError for invalid YAML; invalid dates, invalid numbers and deep
    nesting would otherwise raise errors of their own."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, OverflowError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("lists and mappings are nested too deeply") from error


def build_settings(cls: type[T], given: Mapping[str, Any], where: str) -> T:
    """The dataclass `cls` filled with `given`, and with its defaults for the rest.

    Raises ConfigError, prefixed with `where`, for an unknown key (with the closest known one), a value of
    the wrong type or a missing required key.
    """
    known: dict[str, Field[Any]] = {option.name: option for option in fields(cls)}  # type: ignore[arg-type]
    former = {old: name for name, option in known.items() if (old := option.metadata.get("former"))}
    hints = typing.get_type_hints(cls)
    values = {}
    for given_key, value in given.items():
        key = former.get(given_key, given_key)
        if key != given_key and key in given:
            raise ConfigError(
                f"{where}: {given_key!r} is the former name of {key!r}, and both are given; leave "
                f"{given_key!r} out"
            )
        if key not in known:
            raise ConfigError(f"{where}: unknown setting {key!r}; {did_you_mean(str(key), list(known))}")
        values[key] = _checked(value, hints[key], f"{where}: {key}")
    for name, option in known.items():
        if name not in values and option.default is MISSING and option.default_factory is MISSING:
            raise ConfigError(f"{where}: {name!r} is missing; {option.metadata['help']}")
    return cls(**values)


def from_command_line(
    cls: type[T], argv: Sequence[str], prog: str, description: str, ignore: Sequence[str] = ()
) -> T:
    """Fill `cls` from flags (one per field, with `-` for `_`), which override the file named by `--config`.

    A mapping field takes `key=value` words, whose values are read as YAML scalars, and is merged key by key.
    Keys in `ignore` are dropped from the file (what a run wrote beside its settings). Raises ConfigError;
    `--help` prints and exits as argparse does.
    """
    parser = _Parser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="YAML file with the same settings; flags override it")
    hints = typing.get_type_hints(cls)
    former: dict[str, str] = {}
    for option in fields(cls):  # type: ignore[arg-type]
        _add_flag(parser, option, hints[option.name])
        former[option.name] = option.metadata["former"]
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
        # A flag overrides the file, under whichever name the file has the setting.
        merged.pop(former.get(key, ""), None)
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


def _add_flag(parser: argparse.ArgumentParser, option: Field[Any], hint: Any) -> None:
    flag = "--" + option.name.replace("_", "-")
    kind = _plain(hint)
    origin = typing.get_origin(kind)
    default = "" if option.default in (MISSING, None, "") else f" (default: {option.default})"
    help = (option.metadata["help"] + default).replace("%", "%%")
    if option.metadata["positional"]:
        # Optional to argparse: `build_settings` reports what neither the flags nor the file give.
        parser.add_argument(
            option.name,
            nargs="*" if origin is tuple else "?",
            metavar=option.name.upper(),
            default=argparse.SUPPRESS,
            help=help,
        )
    elif kind is bool:
        action = argparse.BooleanOptionalAction
        parser.add_argument(flag, action=action, default=argparse.SUPPRESS, help=help)
    elif origin in (dict, tuple):
        metavar = "KEY=VALUE" if origin is dict else option.name.upper()
        parser.add_argument(
            flag, nargs="+", action="extend", metavar=metavar, default=argparse.SUPPRESS, help=help
        )
    else:
        metavar = {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")
        convert = {int: int, float: float}.get(kind, str)
        flags = [flag, *(["--" + former.replace("_", "-")] if (former := option.metadata["former"]) else [])]
        parser.add_argument(*flags, type=convert, metavar=metavar, default=argparse.SUPPRESS, help=help)


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
        # A single word is a list of length 1: `ids: q7` and `ids: [q7]` mean the same.
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
