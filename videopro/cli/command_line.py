"""The command line of a command: flags (cyclopts) over a YAML file, as one dataclass of settings."""

from __future__ import annotations

import inspect
import sys
import textwrap
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, Self, TypeVar

import cyclopts
import yaml
from cyclopts import App, Group, Parameter
from rich.console import Console

from videopro.cli.catalogue import COMMANDS
from videopro.cli.option_flags import MAPPING, OptionFlags
from videopro.cli.settings import (
    build_settings,
    did_you_mean,
    is_setting,
    own_first,
    parse_yaml,
    plain_type,
    read_yaml,
)
from videopro.errors import ConfigError

T = TypeVar("T")

CONFIGS = Path(__file__).parents[1] / "configs"
"""The YAML files shipped with the project, in one folder per command."""

HELP = frozenset(("--help", "-h"))

# Headings of --help, besides those that settings name.
_ARGUMENTS = Group("Arguments", sort_key=0)
_COMMON = Group("Common", sort_key=1000)
_UNGROUPED = "Settings"


@dataclass(frozen=True)
class CommandLine(Generic[T]):
    """The settings of a command: flags override the file named by `--config`."""

    name: str
    """The command's name in `videopro.cli.catalogue`, or the module that `python -m` runs."""
    settings: type[T]
    ignore: Sequence[str] = ()
    """Keys to ignore in a file (what a run writes next to its settings)."""
    configs: str = ""
    """Folder in CONFIGS whose files `--config NAME` takes."""
    summary: str = ""
    """What the command does, if it is not in `videopro.cli.catalogue`."""
    options: OptionFlags | None = None
    """The flags of what the command runs, in addition to its own."""

    @property
    def program(self) -> str:
        """The command as typed, for messages."""
        return f"videopro {self.name}" if self.name in COMMANDS else f"python -m {self.name}"

    def parse(self, argv: Sequence[str] | None = None) -> T:
        """Parse the settings in `argv` (None: this process's command line).

        A mapping takes `key=value` words with YAML scalars as values, which override the file's keys one
        by one. Raises ConfigError; `--help` and `--print-config` print and raise SystemExit.
        """
        arguments = list(sys.argv[1:] if argv is None else argv)
        named = self._with_named(arguments)
        if HELP.intersection(arguments):
            named.show_help(arguments)
            raise SystemExit(0)
        return named._parse(arguments)

    def _parse(self, arguments: Sequence[str]) -> T:
        flags = self._read_flags(arguments)
        _refuse_empty(self.settings, flags, self.program)
        wants_print = flags.pop("print_config", False)
        file = config_file(flags.pop("config"), self.configs) if "config" in flags else None
        # Flags are laid over the file before types are checked: both then have the same checks and messages.
        merged: dict[str, Any] = dict(read_yaml(file)) if file is not None else {}
        for key in self.ignore:
            merged.pop(key, None)
        if self.options is not None:
            self._merge_options(self.options, merged, flags, str(file))
        _merge(self.settings, merged, flags, str(file))
        settings = build_settings(self.settings, merged, self.program if file is None else str(file))
        # After the check, so that what is printed can be given to --config unchanged.
        if wants_print:
            print(as_yaml(settings), end="")
            raise SystemExit(0)
        return settings

    def _with_named(self, argv: Sequence[str]) -> Self:
        """Add the options of a plug-in named in `argv`, or in the file of its `--config`."""
        if self.options is None:
            return self
        chosen: Any = ()
        if files := [value for word, value in pairwise(argv) if word == "--config"]:
            chosen = read_yaml(config_file(files[0], self.configs)).get(self.options.chosen_by) or ()
        options = self.options.including(argv, [chosen] if isinstance(chosen, str) else chosen)
        return self if options is self.options else replace(self, options=options)

    def show_help(self, argv: Sequence[str]) -> None:
        """Print the `--help` for these words."""
        self.app(argv)(["--help"], console=Console())

    def _merge_options(
        self, options: OptionFlags, merged: dict[str, Any], flags: dict[str, Any], file: str
    ) -> None:
        """Move options given as flags, or at the top level of the file, into the mapping of options. Raises
        ConfigError."""
        named = options.chosen_by
        defaults = {option.name: option.default for option in fields(self.settings)}  # type: ignore[arg-type]
        chosen: Any = flags.get(named) or merged.get(named) or defaults.get(named)
        choices: Sequence[str] = [chosen] if isinstance(chosen, str) else chosen or ()
        if MAPPING in flags:
            flags[MAPPING] = dict(_key_value(word, MAPPING) for word in flags[MAPPING])
        # One after the other: a flag may change what the file says, but neither may contradict itself.
        options.move(self.settings, merged, choices, file, is_file=True)
        options.move(self.settings, flags, choices, self.program, is_file=False)

    def app(self, argv: Sequence[str] = ()) -> App:
        """The command's flags; running it prints help or returns the given settings. `argv`: the words that
        choose whose options --help shows."""
        about = COMMANDS.get(self.name)
        examples = about.help_examples() if about is not None else ""
        app = App(
            name=self.program,
            help=about.summary if about is not None else self.summary,
            help_epilogue=f"Examples:\n\n{examples}" if examples else None,
            help_format="plaintext",
            # `videopro --version` has it; cyclopts would add one to each command.
            version_flags=[],
            group_arguments=_ARGUMENTS,
            result_action="return_value",
        )
        app["--help"].group = (_COMMON,)
        more = self.options.parameters(self.settings, argv) if self.options is not None else []
        app.default(_function(self.settings, self.configs, more))
        return app

    def _read_flags(self, argv: Sequence[str]) -> dict[str, Any]:
        """Parse flags and positional arguments into settings."""
        app = self.app(argv)
        try:
            values: dict[str, Any] = app(list(argv), exit_on_error=False, print_error=False)
        except cyclopts.UnknownOptionError as error:
            word = error.token.keyword or error.token.value
            flags = [flag for argument in app.assemble_argument_collection() for flag in argument.names]
            raise ConfigError(
                f"{self.program}: unknown argument {word!r}; "
                f"{did_you_mean(word.split('=')[0], [flag for flag in flags if flag.startswith('--')])}"
            ) from error
        except cyclopts.UnusedCliTokensError as error:
            stray = " ".join(map(repr, error.unused_tokens or []))
            raise ConfigError(f"{self.program}: unexpected argument {stray} (see --help)") from error
        # Its messages have several lines, and do not name the command.
        except cyclopts.CycloptsError as error:
            message = " ".join(str(error).split()).rstrip(".")
            raise ConfigError(f"{self.program}: {message[:1].lower()}{message[1:]} (see --help)") from error
        return values


def config_file(named: str | Path, folder: str) -> Path:
    """The file that `--config` names: a path, or the name of a shipped file in `folder` of CONFIGS. Raises
    ConfigError for an unknown name."""
    path = Path(named)
    # A folder that happens to have the name of a shipped config does not hide it.
    if path.suffix or "/" in str(named) or path.is_file():
        return path
    shipped = sorted(file.stem for file in (CONFIGS / folder).glob("*.yaml")) if folder else []
    if path.name in shipped:
        return CONFIGS / folder / f"{path.name}.yaml"
    hint = did_you_mean(path.name, shipped) if shipped else "this command has no shipped configs"
    raise ConfigError(f"--config {named}: is neither a file nor the name of a shipped config; {hint}")


def as_yaml(settings: Any) -> str:
    """All settings as YAML for `--config`, each below the first line of its help."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, tuple | list):
            return [plain(each) for each in value]
        return str(value) if isinstance(value, Path) else value

    parts = []
    for option in _settings_of(settings):
        value = getattr(settings, option.name)
        value = plain(value)
        # One setting at a time, for the help above it; the width keeps a long value on one line.
        line = yaml.safe_dump({option.name: value}, sort_keys=False, allow_unicode=True, width=10**6)
        about = textwrap.fill(option.metadata["help"], 100, initial_indent="# ", subsequent_indent="# ")
        parts.append(f"{about}\n{line}")
    return "".join(parts)


def _settings_of(cls: Any) -> list[Field[Any]]:
    return [option for option in fields(cls) if is_setting(option)]


def _merge(cls: type, merged: dict[str, Any], flags: Mapping[str, Any], file: str) -> None:
    """Put what the command line gives over what the file gives."""
    hints = typing.get_type_hints(cls)
    joined = {option.name for option in _settings_of(cls) if option.metadata["joined"]}
    for key, value in flags.items():
        kind = plain_type(hints[key])
        # The setting is one text; only its flag takes several words.
        if key in joined:
            value = ",".join(value)
        elif typing.get_origin(kind) is typing.Union:
            value = _read_value(value, "--" + key.replace("_", "-"), value)
        if typing.get_origin(kind) is not dict:
            merged[key] = value
            continue
        below = merged.get(key) or {}
        if not isinstance(below, dict):
            raise ConfigError(f"{file}: {key} must be a mapping, not {below!r}")
        pairs = value if isinstance(value, dict) else dict(_key_value(word, key) for word in value)
        merged[key] = {**below, **pairs}


def _key_value(word: str, setting: str) -> tuple[str, Any]:
    key, equals, value = word.partition("=")
    flag = "--" + setting.replace("_", "-")
    if not key or not equals:
        raise ConfigError(f"{flag}: {word!r} must have the form key=value")
    return key, _read_value(value, flag, word) if value else ""


def _read_value(value: str, flag: str, word: str) -> Any:
    try:
        return parse_yaml(value)
    except ValueError as error:
        raise ConfigError(f"{flag}: cannot read the value of {word!r}: {error}") from error


def _function(cls: type, configs: str, more: Sequence[inspect.Parameter]) -> Any:
    """A function whose parameters are the settings of `cls` and `more`; it returns those that it was called
    with."""
    hints = typing.get_type_hints(cls)
    arguments = [option for option in _settings_of(cls) if option.metadata["positional"]]
    flags = own_first(cls, [option for option in _settings_of(cls) if not option.metadata["positional"]])
    names = dict.fromkeys(option.metadata["group"] or _UNGROUPED for option in flags)
    groups = {name: Group(name, sort_key=order) for order, name in enumerate(names, 1)}

    def collect(*positional: Any, **keywords: Any) -> dict[str, Any]:
        for index, option in enumerate(arguments[: len(positional)]):
            keywords[option.name] = positional[index:] if _is_many(hints[option.name]) else positional[index]
        return keywords

    parameters = [_word(option, hints[option.name]) for option in arguments]
    for option in flags:
        group = groups[option.metadata["group"] or _UNGROUPED]
        parameters.append(_flag(option, plain_type(hints[option.name]), group))
    parameters += [*more, *_common_flags(configs)]
    function: Any = collect
    # cyclopts reads a signature. A dataclass's own would have defaults, and hide which flags were given.
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _is_many(hint: Any) -> bool:
    return typing.get_origin(plain_type(hint)) in (dict, tuple)


# To cyclopts nothing is required and nothing has a default: `build_settings` reports what neither the flags
# nor the file give.
# A scalar that is given twice has its last value, so that a script's own flags can be overridden.
_PLAIN = Parameter(show_default=False, negative_iterable=(), allow_repeating=True)


def _word(option: Field[Any], hint: Any) -> inspect.Parameter:
    """A positional argument: one word, or all that are left."""
    about = Parameter(help=option.metadata["help"], group=_ARGUMENTS)
    if _is_many(hint):
        all_left: Any = Annotated[str, _PLAIN, about]
        return inspect.Parameter(option.name, inspect.Parameter.VAR_POSITIONAL, annotation=all_left)
    annotation: Any = Annotated[plain_type(hint) | None, _PLAIN, about]
    # Otherwise cyclopts would also offer the argument as a flag.
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Parameter(option.name, kind, default=None, annotation=annotation)


def _refuse_empty(settings: type[Any], flags: Mapping[str, Any], program: str) -> None:
    """Raise ConfigError for a flag of several values that has none: `--ids $(cat FILE)` with an empty file
    would mean all questions. Where the default is not empty, a flag without values means none of them."""
    for option in _settings_of(settings):
        if flags.get(option.name) == () and option.default in (MISSING, None, "", ()):
            flag = f"--{option.name.replace('_', '-')}"
            raise ConfigError(f"{program}: {flag} has no value; pass at least one, or leave it out")


def _flag(option: Field[Any], kind: Any, group: Group) -> inspect.Parameter:
    """The flag of a setting."""
    many = _is_many(kind) or option.metadata["joined"]
    # Of several types cyclopts takes the first that a word can be turned into, and 0.1 into 0.
    several = typing.get_origin(kind) is typing.Union
    read: Any = tuple[str, ...] if many else str if several else kind
    default = "" if option.default in (MISSING, None, "", ()) else f" (default: {option.default})"
    about = Parameter(
        name=f"--{option.name}".replace("_", "-"),
        help=option.metadata["help"] + default,
        group=group,
        consume_multiple=True if many else None,
        metavar="KEY=VALUE..." if typing.get_origin(kind) is dict else "NUMBER" if several else None,
    )
    annotation = Annotated[read | None, _PLAIN, about]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, keyword, default=None, annotation=annotation)


def _common_flags(configs: str) -> list[inspect.Parameter]:
    shipped = sorted(file.stem for file in (CONFIGS / configs).glob("*.yaml")) if configs else []
    names = f", or a shipped one by name: {', '.join(shipped)}" if shipped else ""
    helps = {
        "config": (str, f"YAML file of settings, which flags override{names}"),
        "print_config": (bool, "print all settings as YAML for --config, and exit"),
    }
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, _PLAIN, Parameter(help=help, group=_COMMON, negative=())],
        )
        for name, (kind, help) in helps.items()
    ]
