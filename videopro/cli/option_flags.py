"""Options that depend on a choice, as flags: the options of the `--method` that a command runs.

`--tau 0.8` and `--options tau=0.8` are the same, and so are `tau: 0.8` and `options: {tau: 0.8}` in a file. A
command declares only the mapping `options`; names, types, defaults and help come from the settings of the
choice, so they are defined once.
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

MAPPING = "options"
"""The setting of each of these commands that contains the options."""


@dataclass(frozen=True)
class OptionFlags:
    """The options of a command that depend on one of several choices."""

    kinds: Mapping[str, type]
    """The settings of each choice: a dataclass by its name."""
    chosen_by: str = ""
    """The command's setting that names the choice, or several; empty if there is only one."""
    default_choices: Sequence[str] = ()
    """The choices whose options --help shows if none is named."""
    find: Callable[[str], type | None] = lambda choice: None
    """The settings of a choice that is not in `kinds`, such as a plug-in's; None: there is no such
    choice."""

    def including(self, argv: Sequence[str], more: Sequence[str] = ()) -> OptionFlags:
        """Add the settings of the choices that `argv` names, or `more`, which a file names. Raises
        VideoProError for a choice that cannot be loaded."""
        named = [name for name in (*self._named(argv), *more) if name not in self.kinds]
        found = {name: kind for name in named if (kind := self.find(name)) is not None}
        return replace(self, kinds={**self.kinds, **found}) if found else self

    @cached_property
    def _options(self) -> dict[str, _Option]:
        options: dict[str, _Option] = {}
        for choice, kind in self.kinds.items():
            hints = typing.get_type_hints(kind)
            for declared in _settings(kind):
                option = options.setdefault(declared.name, _Option(declared.name, {}, []))
                option.declared[choice] = declared
                option.kinds.append(_type_of_word(hints[declared.name]))
        return options

    def names(self, command: type) -> set[str]:
        """The options that are flags of a command; the command's own settings take precedence."""
        return set(self._options) - {setting.name for setting in fields(command)}

    def parameters(self, command: type, argv: Sequence[str]) -> list[inspect.Parameter]:
        """The flags for cyclopts; --help shows the flags of the choice that `argv` names."""
        named = self._named(argv) or self.default_choices or self.kinds
        choices = [choice for choice in named if choice in self.kinds]
        flags, groups, parameters = self.names(command), dict[str, Group](), []
        # The settings of the chosen one, in its own order, before those that only others have.
        shown = (each.name for choice in choices for each in _settings(self.kinds[choice]))
        for name in dict.fromkeys((*shown, *self._options)):
            if name not in flags:
                continue
            option = self._options[name]
            having = [choice for choice in choices if choice in option.declared]
            title = f"Options of {self.chosen_by or next(iter(self.kinds))} {', '.join(having)}".rstrip()
            # Between the command's own groups (from 1) and the common flags (1000).
            group = groups.setdefault(title, Group(title, sort_key=500 + len(groups)))
            parameters.append(option.parameter(having, group))
        return parameters

    def _named(self, argv: Sequence[str]) -> list[str]:
        """The choices in the words of a command line."""
        # By hand: what is chosen decides which flags there are, so the parser cannot be asked yet.
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

    def move(
        self, command: type, given: dict[str, Any], choices: Sequence[str], where: str, *, is_file: bool
    ) -> None:
        """Move options next to the command's settings, from a file or flags, into the mapping of options.
        `where`: their source. Raises ConfigError for an option that none of the choices has, or that
        contradicts the mapping. The command reports an unknown choice."""
        for name in sorted(self.names(command) & given.keys()):
            option, value = self._options[name], given.pop(name)
            # Null in a file is unset.
            if value is None:
                continue
            at = f"{where}: {name}" if is_file else option.flag
            if choices and not any(each in option.declared or each not in self.kinds for each in choices):
                lack = "has" if len(choices) == 1 else "have"
                raise ConfigError(
                    f"{at}: {self.chosen_by} {', '.join(map(repr, choices))} {lack} no such "
                    f"setting; it belongs to {', '.join(option.declared)}"
                )
            value = value if is_file else option.read(value)
            options = given.get(MAPPING) or {}
            if not isinstance(options, dict):
                raise ConfigError(f"{where}: {MAPPING} must be a mapping, not {options!r}")
            if name in options and options[name] != value:
                mapping = MAPPING if is_file else f"--{MAPPING}"
                raise ConfigError(f"{at} is {value!r}, but {mapping} sets {name}={options[name]!r}")
            given[MAPPING] = {**options, name: value}


@dataclass(frozen=True)
class _Option:
    """An option, with its declaration in each choice that has it."""

    name: str
    declared: dict[str, Field[Any]]
    kinds: list[Any]
    """The types of its word on the command line."""

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def _is_yaml(self) -> bool:
        """Whether its word is parsed like --options, because it has no single type."""
        return any(kind != self.kinds[0] or _is_union(kind) for kind in self.kinds)

    def parameter(self, choices: Sequence[str], group: Group) -> inspect.Parameter:
        """The flag for cyclopts, with the help of `choices`; hidden if there are none."""
        is_many = typing.get_origin(self.kinds[0]) is tuple
        texts = {choice: _help(self.declared[choice]) for choice in choices}
        # Choices often share a setting: one help text then serves them all.
        helps = dict.fromkeys(texts.values())
        if len(helps) > 1:
            helps = dict.fromkeys(f"{choice}: {text}" for choice, text in texts.items())
        about = Parameter(
            name=self.flag,
            help="; ".join(helps),
            group=group,
            show=bool(choices),
            show_default=False,
            negative_iterable=(),
            allow_repeating=True,
            consume_multiple=True if is_many else None,
            metavar="NUMBER" if _is_union(self.kinds[0]) else None,
        )
        kind: Any = tuple[str, ...] if is_many else str if self._is_yaml else self.kinds[0]
        annotation = Annotated[kind | None, about]
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )

    def read(self, value: Any) -> Any:
        """Parse the flag's value as for --options. Raises ConfigError."""
        if value == () and all(each.default in (MISSING, None, ()) for each in self.declared.values()):
            raise ConfigError(f"{self.flag} has no value; pass at least one, or leave it out")
        if isinstance(value, tuple):
            return list(value)
        if not (isinstance(value, str) and self._is_yaml):
            return value
        try:
            return parse_yaml(value)
        except ValueError as error:
            raise ConfigError(f"{self.flag}: cannot read the value {value!r}: {error}") from error


def _settings(kind: type) -> list[Field[Any]]:
    return own_first(kind, [each for each in fields(kind) if is_setting(each)])


def _type_of_word(hint: Any) -> Any:
    """The type of a setting's word on the command line. Of a text or a mapping, only the text; a path stays
    the text that it is, for the record of a run."""
    kind = plain_type(hint)
    return str if kind is Path or (_is_union(kind) and str in typing.get_args(kind)) else kind


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Union


def _help(declared: Field[Any]) -> str:
    default = declared.default
    note = "" if default in (MISSING, None, "", ()) else f" (default: {default})"
    return f"{declared.metadata['help']}{note}"
