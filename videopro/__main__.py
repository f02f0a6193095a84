"""The command `videopro`, also as `python -m videopro`: runs the command that is named."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import cyclopts
from cyclopts import App, Group

from videopro import __version__
from videopro.cli import COMMANDS, GROUPS, HELP, did_you_mean, exit_status
from videopro.errors import ConfigError
from videopro.startup import importing

_EXAMPLES = ("infer", "view", "sft")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns its exit status, 2 for an unknown one."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) > 1 and arguments[0] in HELP:
        arguments = [*arguments[1:], "--help"]
    name, command_arguments = _named(arguments)
    if name in COMMANDS:
        command = COMMANDS[name]
        # A command may need an extra to be imported.
        with exit_status(stopped="stopped") as status, importing():
            # Help needs the settings alone, whose module imports no model library.
            if command.settings and HELP.intersection(command_arguments):
                settings, _, attribute = command.settings.partition(":")
                getattr(import_module(settings), attribute).show_help(command_arguments)
                return 0
            module = import_module(command.module)
        return status.code or int(module.main([*name.split()[1:], *command_arguments]))
    with exit_status() as status:
        in_group = _in_group(arguments[0]) if arguments else []
        if arguments and not arguments[0].startswith("-") and not in_group:
            names = list(dict.fromkeys(command.split()[0] for command in COMMANDS))
            raise ConfigError(
                f"videopro: unknown command {arguments[0]!r}; {did_you_mean(arguments[0], names)}"
            )
        if in_group and len(arguments) > 1 and not arguments[1].startswith("-"):
            names = [command.split()[1] for command in in_group]
            raise ConfigError(
                f"videopro {arguments[0]}: unknown command {arguments[1]!r}; "
                f"{did_you_mean(arguments[1], names)}"
            )
        try:
            overview()(arguments, exit_on_error=False, print_error=False)
        except cyclopts.CycloptsError as error:
            program, flag = (
                (f"videopro {arguments[0]}", arguments[1]) if in_group else ("videopro", arguments[0])
            )
            names = ["--help"] if in_group else ["--help", "--version"]
            raise ConfigError(f"{program}: unknown argument {flag!r}; {did_you_mean(flag, names)}") from error
    return status.code


def overview() -> App:
    """The commands with what they do, in groups; it runs none."""
    app = App(
        name="videopro",
        version=__version__,
        help="Program-reasoning VideoLLMs for long videos: run, compare, inspect, train.",
        help_epilogue="Examples:\n\n"
        + "".join(COMMANDS[name].help_examples(1) for name in _EXAMPLES)
        + "\nSettings and examples of a command: videopro COMMAND --help\n",
        help_format="plaintext",
        result_action="return_value",
    )
    common = Group("Common", sort_key=len(GROUPS))
    for flag in ("--help", "--version"):
        app[flag].group = (common,)
    for order, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=order)
        for command in commands:
            first, _, last = command.name.partition(" ")
            if not last:
                app.command(_app(first, command.summary, group))
                continue
            if first not in app:
                app.command(_app(first, _OF_GROUP[first], group))
            app[first].command(_app(last, command.summary, None))
    return app


def _app(name: str, help: str, group: Group | None) -> App:
    return App(name=name, help=help, version_flags=[], help_epilogue="", help_format="plaintext", group=group)


_OF_GROUP = {"benchmarks": "List and check benchmarks, grade open answers, write submissions."}


def _named(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The longest command at the start of the words, and what follows it."""
    for length in (2, 1):
        name = " ".join(arguments[:length])
        if len(arguments) >= length and name in COMMANDS:
            return name, list(arguments[length:])
    return "", list(arguments)


def _in_group(word: str) -> list[str]:
    return [name for name in COMMANDS if name.startswith(f"{word} ")]


if __name__ == "__main__":
    sys.exit(main())
