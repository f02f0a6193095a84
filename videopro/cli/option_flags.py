"""Options that depend on a choice, as flags: those of the `--method` that a command runs.

`--tau 0.8` and `--options tau=0.8` are the same, and so are `tau: 0.8` and `options: {tau: 0.8}` in a file. A
command declares only the mapping `options`; names, types, defaults and help come from the settings of what is
chosen, so they are written down once.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from videopro.cli.settings import is_setting, own_first, parse_yaml, plain_type
from videopro.errors import ConfigError


@dataclass(frozen=True)
class OptionFlags:
    """The options of a command that belong to one of several choices."""

    kinds: Mapping[str, type]
    """The settings of each choice: a dataclass by its name."""
    chosen_by: str = ""
    """The command's setting that names the choice, or several of them; empty for the only one there is."""
    default_choices: Sequence[str] = ()
    """The choices whose options --help shows if none is named."""
    mapping: str = "options"
    """The command's setting that holds the options."""
    find: Callable[[str], type | None] = lambda choice: None
    """The settings of a choice that is none of `kinds`, such as a plug-in's; None: there is no such
    choice."""

    def including(self, argv: Sequence[str], more: Sequence[str] = ()) -> OptionFlags:
        """With the settings of the choices that `argv` names, or `more`, which is known of a file. Raises
        VideoProError for one that cannot be loaded."""
        named = [name for name in (*self._named(argv), *more) if name not in self.kinds]
        found = {name: kind for name in named if (kind := self.find(name)) is not None}
        return replace(self, kinds={**self.kinds, **found}) if found else self

    @cached_property
    def _declared(self) -> dict[str, dict[str, _Option]]:
        """By option, how each choice declares it."""
        declared: dict[str, dict[str, _Option]] = {}
        for choice, kind in self.kinds.items():
            hints = typing.get_type_hints(kind)
            for option in filter(is_setting, fields(kind)):
                declared.setdefault(option.name, {})[choice] = _Option(option, hints[option.name])
        return declared

    def names(self, command: type) -> set[str]:
        """The options that are flags of a command: a setting of its own goes before one of the same name."""
        return set(self._declared) - {setting.name for setting in fields(command)}

    def parameters(self, command: type, argv: Sequence[str]) -> list[inspect.Parameter]:
        """The flags for cyclopts; --help shows those of the choice that `argv` names."""
        choices = [
            choice
            for choice in self._named(argv) or self.default_choices or self.kinds
            if choice in self.kinds
        ]
        flags, groups = self.names(command), dict[str, Group]()
        parameters = []
        first = (option.name for choice in choices for option in _own_first(self.kinds[choice]))
        for name in dict.fromkeys((*first, *self._declared)):
            if name not in flags:
                continue
            by_choice = self._declared[name]
            having = [choice for choice in choices if choice in by_choice]
            title = f"Options of {self.chosen_by or next(iter(self.kinds))} {', '.join(having)}".rstrip()
            # Between the command's own groups (from 1) and the common flags (1000).
            group = groups.setdefault(title, Group(title, sort_key=500 + len(groups)))
            parameters.append(_parameter(name, by_choice, having, group))
        return parameters

    def _named(self, argv: Sequence[str]) -> list[str]:
        """The choices in the words of a command line."""
        named: list[str] = []
        is_naming = False
        for word in argv:
            flag, equals, value = word.partition("=")
            if word.startswith("-"):
                is_naming = bool(self.chosen_by) and flag == f"--{self.chosen_by}"
                named += [value] if is_naming and equals else []
            elif is_naming:
                named.append(word)
        return named

    def take_from_flags(
        self, command: type, flags: dict[str, Any], choices: Sequence[str], program: str
    ) -> dict[str, Any]:
        """The options among the flags, which are taken out of `flags`. Raises ConfigError."""
        options = {}
        for name in sorted(self.names(command) & flags.keys()):
            value, flag = flags.pop(name), _flag(name)
            self._check(name, choices, flag)
            declared = list(self._declared[name].values())
            if value == () and all(each.option.default in (MISSING, None, ()) for each in declared):
                raise ConfigError(f"{program}: {flag} has no value; give at least one, or leave it out")
            options[name] = _read(value, declared, flag)
        return options

    def take_from_file(
        self, command: type, merged: dict[str, Any], choices: Sequence[str], file: str
    ) -> None:
        """Move the options that a file has beside the command's settings into its mapping. Null is unset.
        Raises ConfigError."""
        beside = {name: merged.pop(name) for name in sorted(self.names(command) & merged.keys())}
        values = {name: value for name, value in beside.items() if value is not None}
        for name in values:
            self._check(name, choices, f"{file}: {name}")
        options = merged.get(self.mapping)
        if values and not isinstance(options, dict | None):
            raise ConfigError(f"{file}: {self.mapping} must be a mapping, not {options!r}")
        if values:
            merged[self.mapping] = merge_options(options or {}, values, f"{file}: {{name}}", self.mapping)

    def _check(self, name: str, choices: Sequence[str], where: str) -> None:
        """Raise ConfigError for an option that none of the choices has. An unknown choice is the command's to
        report."""
        having = self._declared[name]
        if choices and not any(choice in having or choice not in self.kinds for choice in choices):
            lack = "has" if len(choices) == 1 else "have"
            raise ConfigError(
                f"{where}: {self.chosen_by} {', '.join(map(repr, choices))} {lack} no such setting; methods "
                f"that have it: {', '.join(having)}"
            )


@dataclass(frozen=True)
class _Option:
    """An option as one choice declares it."""

    option: Field[Any]
    hint: Any

    @property
    def kind(self) -> Any:
        """The type that a word on the command line has. Of a text or a mapping, only the text; a path stays
        the text that it is, for the record of a run."""
        kind = plain_type(self.hint)
        parts = typing.get_args(kind) if typing.get_origin(kind) is typing.Union else ()
        return str if kind is Path or str in parts else kind

    @property
    def help(self) -> str:
        """Its help with its default."""
        default = self.option.default
        note = "" if default in (MISSING, None, "", ()) else f" (default: {default})"
        return f"{self.option.metadata['help']}{note}"


def merge_options(
    options: Mapping[str, Any], values: Mapping[str, Any], where: str, mapping: str
) -> dict[str, Any]:
    """The options of a mapping with the values of others; `where` has a slot for the option's name or flag.
    Raises ConfigError if they contradict each other."""
    for name, value in values.items():
        if name in options and options[name] != value:
            at = where.format(name=name, flag=_flag(name))
            raise ConfigError(f"{at} is {value!r}, and {mapping} says {name}={options[name]!r}")
    return {**options, **values}


def _parameter(
    name: str, by_choice: Mapping[str, _Option], choices: Sequence[str], group: Group
) -> inspect.Parameter:
    """The flag of an option, with the help of `choices`; hidden if there are none."""
    kinds = [each.kind for each in by_choice.values()]
    is_same = all(kind == kinds[0] for kind in kinds)
    is_many = typing.get_origin(kinds[0]) is tuple
    helps = dict.fromkeys(by_choice[choice].help for choice in choices)
    if len(helps) > 1:
        helps = dict.fromkeys(f"{choice}: {by_choice[choice].help}" for choice in choices)
    # Choices that declare it differently: read as text, and then as YAML, as --options would.
    read: Any = tuple[str, ...] if is_many else kinds[0] if is_same and not _is_union(kinds[0]) else str
    about = Parameter(
        name=_flag(name),
        help="; ".join(helps),
        group=group,
        show=bool(choices),
        show_default=False,
        negative_iterable=(),
        allow_repeating=True,
        consume_multiple=True if is_many else None,
        metavar="NUMBER" if _is_union(kinds[0]) else None,
    )
    annotation = Annotated[read | None, about]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _read(value: Any, declared: Sequence[_Option], flag: str) -> Any:
    """The value of a flag as `--options` would have it."""
    kinds = [each.kind for each in declared]
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str) and any(kind != kinds[0] or _is_union(kind) for kind in kinds):
        try:
            return parse_yaml(value)
        except ValueError as error:
            raise ConfigError(f"{flag}: {value!r}: the value cannot be read: {error}") from error
    return value


def _own_first(kind: type) -> list[Field[Any]]:
    return own_first(kind, [option for option in fields(kind) if is_setting(option)])


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Union


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
