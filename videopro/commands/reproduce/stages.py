"""What a stage of a reproduction is: commands, with their settings, in their order.

A stage runs videopro commands that you can also run by hand: their settings are written to a file, and the
commands are printed.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    gpus: tuple[str, ...] | None = None
    """The GPUs that it sees, as CUDA_VISIBLE_DEVICES names them; None: those that this process sees."""
    on_each_gpu: bool = False
    """Whether it is started on each of `gpus` at the same time, to share its work."""

    @property
    def argv(self) -> list[str]:
        """The command, run by this Python."""
        if self.name in PROGRAMS:
            return [sys.executable, *PROGRAMS[self.name], *self._flags]
        if self.launch is None:
            return [sys.executable, *self._module]
        return [sys.executable, "-m", "accelerate.commands.launch", *self.launch, *self._module]

    @property
    def environments(self) -> list[dict[str, str]]:
        """What is added to this process's environment, for each time that it is started."""
        if self.gpus is None:
            return [{}]
        seen = self.gpus if self.on_each_gpu and self.gpus else [",".join(self.gpus)]
        return [{"CUDA_VISIBLE_DEVICES": gpus} for gpus in seen]

    def __str__(self) -> str:
        """As typed in a shell."""
        (first, *others), typed = self.environments, ["videopro", *self.name.split(), *self._flags]
        if self.name in PROGRAMS:
            typed = [self.name, *self._flags]
        elif self.launch is not None:
            typed = ["accelerate", "launch", *self.launch, *self._module]
        line = "".join(f"{name}={value} " for name, value in first.items()) + shlex.join(typed)
        return f"{line}  # and on {len(others)} other GPUs" if others else line

    @property
    def _flags(self) -> list[str]:
        return [*self.arguments, *(["--config", str(self.file)] if self.file is not None else [])]

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
    runs_all: bool = False
    """Whether the other commands still run after one fails, before the stage fails."""

    @property
    def kind(self) -> str:
        """Its kind, one of STAGES."""
        return self.name.partition("-")[0]

    @property
    def key(self) -> Any:
        """Its commands and their settings, JSON-able, to see whether they changed."""
        rows = [[each.name, each.arguments, each.settings] for each in self.commands]
        return json.loads(json.dumps(rows, default=str))


def shown(commands: Sequence[Command], most: int = 3) -> list[str]:
    """The first commands as lines, and the number of others."""
    lines = [str(command) for command in commands[:most]]
    return [*lines, f"... and {len(commands) - most} more like these"] if len(commands) > most else lines
