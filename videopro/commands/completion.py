"""videopro completion: print a script that completes commands and settings in a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal

from cyclopts import App

from videopro.cli import COMMANDS, CommandLine, MissingExtra, exit_status, setting


@dataclass(frozen=True)
class CompletionConfig:
    """The settings of `videopro completion`."""

    shell: Literal["bash", "zsh", "fish"] = field(metadata=setting("bash, zsh or fish", positional=True))


COMMAND = CommandLine("completion", CompletionConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status(stopped="stopped") as status:
        print(script(COMMAND.parse(argv).shell))
    return status.code


def script(shell: Literal["bash", "zsh", "fish"]) -> str:
    """The script for a shell. For trainers it completes only their names: the flags are TRL's."""
    root = App(name="videopro")
    for name, line in command_lines().items():
        parent = root
        for word in name.split()[:-1]:
            if word not in parent:
                parent.command(App(name=word))
            parent = parent[word]
        app = line.app() if line is not None else App()
        parent.command(app, name=name.split()[-1])
    return root.generate_completion(prog_name="videopro", shell=shell)


def command_lines() -> dict[str, CommandLine[object] | None]:
    """The settings of every command by its name; None for a trainer, whose flags TRL's parser reads, and for
    a command whose extra is not installed."""
    by_name: dict[str, CommandLine[object] | None] = {}
    for name, command in COMMANDS.items():
        try:
            module = import_module(command.module)
        except MissingExtra:
            by_name[name] = None
            continue
        lines = getattr(module, "LINES", None) or (getattr(module, "COMMAND", None),)
        by_name[name] = next((line for line in lines if line is not None and line.name == name), None)
    return by_name
