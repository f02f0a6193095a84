"""What a stage of a reproduction is: commands, with their settings, in their order.

A stage runs videopro commands that you can also run by hand: their settings are written to a file, and the
commands are printed.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopro.cli import read_yaml

STAGES: Mapping[str, Any] = read_yaml(Path(__file__).with_name("stages.yaml"))
"""The kinds of stages, in their order."""
FILES, TRAININGS = ("download", "check"), ("sft", "grpo")
_PROGRAMS = {
    "videopro": ("-m", "videopro"),
    "accelerate": ("-m", "accelerate.commands.accelerate_cli"),
    "hf": ("-m", "huggingface_hub.cli.hf"),
    "python": (),
}
"""What can be typed first in a command, as arguments of this Python."""


@dataclass(frozen=True)
class Command:
    """One command of a stage."""

    name: str
    """Of `videopro.cli.COMMANDS`; or hf or python, for which `arguments` is all."""
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None
    """Written to `file`, which `--config` names."""
    file: Path | None = None
    launch: tuple[str, ...] | None = None
    """The flags of `accelerate launch`; None: it is started directly."""
    gpus: tuple[str, ...] | None = None
    """The value of CUDA_VISIBLE_DEVICES for each process that is started, at the same time, to share the
    work; None: one, which sees what this process sees."""
    gigabytes: float = 0.0
    """What it downloads or unpacks, as far as it is known."""

    @property
    def words(self) -> list[str]:
        """The command as typed, without its environment."""
        flags = [*self.arguments, *(("--config", str(self.file)) if self.file is not None else ())]
        if self.name in _PROGRAMS:
            return [self.name, *flags]
        launcher = [] if self.launch is None else ["accelerate", "launch", *self.launch, "-m"]
        return [*launcher, "videopro", *self.name.split(), *flags]

    @property
    def argv(self) -> list[str]:
        """The command, run by this Python."""
        program, *words = self.words
        return [sys.executable, *_PROGRAMS[program], *words]

    @property
    def environments(self) -> list[dict[str, str]]:
        """What is added to this process's environment, for each time that it is started."""
        return [{}] if self.gpus is None else [{"CUDA_VISIBLE_DEVICES": each} for each in self.gpus]

    def __str__(self) -> str:
        """As typed in a shell."""
        first, *others = self.environments
        line = "".join(f"{name}={value} " for name, value in first.items()) + shlex.join(self.words)
        return f"{line}  # and on {len(others)} other GPUs" if others else line


@dataclass(frozen=True)
class Stage:
    """A part of a reproduction, which is done as a whole or not."""

    name: str
    """Its kind, and which of several: `infer-native`."""
    does: str
    """Its description in the plan."""
    commands: tuple[Command, ...]
    after: tuple[str, ...] = ()
    """The kinds of stages whose files it reads."""
    writes: tuple[Path, ...] = ()
    """Files that exist when it is done."""
    fetches: tuple[Path, ...] = ()
    """Folders that it also needs to be done; they may come from other settings."""

    @property
    def kind(self) -> str:
        """Its kind, one of STAGES."""
        return self.name.partition("-")[0]

    @property
    def key(self) -> Any:
        """Its commands and their settings, JSON-able, to see whether they changed."""
        rows = [[each.name, each.arguments, each.settings] for each in self.commands]
        return json.loads(json.dumps(rows, default=str))
