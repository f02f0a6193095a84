"""What a stage of a reproduction is: commands, with their settings, in their order.

A stage runs videopro commands that you can also run by hand: their settings are written to a file, and the
commands are printed.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from videopro.cli import read_yaml

STAGES: Mapping[str, Any] = read_yaml(Path(__file__).with_name("stages.yaml"))
"""The kinds of stages, in their order."""
PROGRAMS = {"hf": ("-m", "huggingface_hub.cli.hf"), "python": ()}
"""Commands that are none of videopro's, as arguments of this Python: the hub's own, and Python itself."""


@dataclass(frozen=True)
class Command:
    """One command of a stage."""

    name: str
    """Of `videopro.cli.COMMANDS`, or of PROGRAMS."""
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None
    """Written to `file`, which `--config` names."""
    file: Path | None = None
    launch: tuple[str, ...] | None = None
    """The flags of `accelerate launch`; None: it is started directly."""
    gpus: str | None = None
    """The GPUs that it sees, as CUDA_VISIBLE_DEVICES names them; None: those that this process sees."""

    @property
    def argv(self) -> list[str]:
        """The command, run by this Python."""
        if self.name in PROGRAMS:
            return [sys.executable, *PROGRAMS[self.name], *self._flags]
        if self.launch is None:
            return [sys.executable, *self._module]
        return [sys.executable, "-m", "accelerate.commands.launch", *self._launched]

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables to add to this process's environment."""
        return {} if self.gpus is None else {"CUDA_VISIBLE_DEVICES": self.gpus}

    def __str__(self) -> str:
        """As typed in a shell."""
        before = "".join(f"{name}={value} " for name, value in self.environment.items())
        if self.name in PROGRAMS:
            argv = [self.name, *self._flags]
        elif self.launch is None:
            argv = ["videopro", *self.name.split(), *self._flags]
        else:
            argv = ["accelerate", "launch", *self._launched]
        return before + shlex.join(argv)

    @property
    def _flags(self) -> list[str]:
        return [*self.arguments, *(["--config", str(self.file)] if self.file is not None else [])]

    @property
    def _launched(self) -> list[str]:
        return [*(self.launch or ()), *self._module]

    @property
    def _module(self) -> list[str]:
        # Not the command's own module: only some of them can be run.
        return ["-m", "videopro", *self.name.split(), *self._flags]


@dataclass(frozen=True)
class Stage:
    """A part of a reproduction, which is done as a whole or not."""

    name: str
    """Its kind, and which of several: `infer-native`."""
    does: str
    """Its description in the plan."""
    commands: tuple[Command, ...]
    after: tuple[str, ...] = ()
    """The stages whose files it reads."""
    writes: tuple[Path, ...] = ()
    """Files that exist when it is done."""
    fetches: tuple[Path, ...] = ()
    """Folders that it also needs to be done; they may come from other settings."""
    in_parallel: bool = False
    """Whether commands on different GPUs run in parallel."""
    runs_all: bool = False
    """Whether the other commands still run after one fails, before the stage fails."""

    @property
    def kind(self) -> str:
        """Its kind, one of STAGES."""
        return self.name.partition("-")[0]

    def waves(self) -> list[tuple[Command, ...]]:
        """Groups of commands that run in parallel, at most one per GPU."""
        if not self.in_parallel:
            return [(command,) for command in self.commands]
        waves: list[list[Command]] = []
        for command in self.commands:
            if not waves or command.gpus in [other.gpus for other in waves[-1]]:
                waves.append([])
            waves[-1].append(command)
        return [tuple(wave) for wave in waves]

    @property
    def key(self) -> str:
        """A hash of its commands and their settings, to see whether they changed. The number of shards does
        not matter."""
        rows = [[each.name, each.arguments, each.settings] for each in self.commands]
        about = list({json.dumps(row, sort_keys=True, default=str): row for row in rows}.values())
        return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:16]


def in_shards(command: Command, gpus: Sequence[str]) -> tuple[Command, ...]:
    """The command once for each GPU, with `--shard i/n`; unchanged for one GPU or none."""
    if len(gpus) < 2:
        return (command,)
    return tuple(
        replace(command, arguments=(*command.arguments, "--shard", f"{number}/{len(gpus)}"), gpus=gpu)
        for number, gpu in enumerate(gpus, start=1)
    )


def on_each_gpu(command: Command, gpus: Sequence[str]) -> tuple[Command, ...]:
    """The same command once for each GPU, for one that shares its work with others like it."""
    return tuple(replace(command, gpus=gpu) for gpu in gpus) if len(gpus) > 1 else (command,)


def shown(commands: Sequence[Command], most: int = 3) -> list[str]:
    """The first commands as lines, and the number of others."""
    lines = [str(command) for command in commands[:most]]
    return [*lines, f"... and {len(commands) - most} more like these"] if len(commands) > most else lines
