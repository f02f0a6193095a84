"""The help of commands whose flags come from TRL and transformers, stored once it was printed: to make it
takes ten seconds of imports."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from importlib import metadata
from pathlib import Path

from videopro.cli.cache_folder import cache_root
from videopro.cli.catalogue import COMMANDS
from videopro.cli.command_line import CONFIGS

_PACKAGE = Path(__file__).parents[1]
# Those that define flags, by command.
_SOURCES = {"sft": "finetune", "grpo": "rl"}


def stored_help(command: str) -> str | None:
    """The help of "sft" or "grpo" as it was printed last, if nothing has changed since that it depends on."""
    try:
        return _file(command).read_text(encoding="utf-8")
    except (OSError, ValueError, metadata.PackageNotFoundError):
        return None


def store_help(command: str, text: str) -> None:
    """Keep a help that is about to be printed."""
    # Without it, the next --help takes as long as this one.
    with contextlib.suppress(OSError, metadata.PackageNotFoundError):
        path = _file(command)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def _file(command: str) -> Path:
    key = hashlib.sha256()
    for package in ("trl", "transformers"):
        key.update(f"{package} {metadata.version(package)} ".encode())
    # The parser fits the lines to the terminal.
    key.update(str(shutil.get_terminal_size().columns).encode())
    key.update(COMMANDS[command].help_examples().encode())
    for config in sorted((CONFIGS / command).glob("*.yaml")):
        key.update(config.stem.encode())
    for source in (
        *sorted((_PACKAGE / "train" / "settings").glob("*.py")),
        _PACKAGE / "train" / _SOURCES[command] / "config.py",
    ):
        key.update(source.read_bytes())
    return cache_root() / "help" / f"{command}-{key.hexdigest()[:16]}.txt"
