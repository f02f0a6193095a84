"""The help of each command, stored once it was printed: to make it takes a second of imports, and ten for the
flags of TRL and transformers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from rich.console import Console

from videopro.cli.cache_folder import cache_root
from videopro.cli.extras import is_installed
from videopro.errors import ConfigError

_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = ("cyclopts", "rich", "transformers", "trl")
"""Those that define flags, or lay the text out."""
_NAMED_BY_HELP = (".py", ".yaml")
HELP = frozenset(("--help", "-h"))


def stored_help(command: str, argv: Sequence[str] = ()) -> str | None:
    """The help of a command as it was printed last for these words, if nothing has changed since that it
    depends on."""
    try:
        return _file(command, argv).read_text(encoding="utf-8")
    except (OSError, ValueError, ConfigError):
        return None


def store_help(command: str, text: str, argv: Sequence[str] = ()) -> None:
    """Keep a help that is about to be printed."""
    # Without it, the next --help takes as long as this one.
    with contextlib.suppress(OSError, ValueError, ConfigError):
        path = _file(command, argv)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def _file(command: str, argv: Sequence[str]) -> Path:
    console = Console()
    parts = [
        # The lines are fitted to the terminal, its colours and its letters.
        *(console.width, console.color_system, console.encoding, sys.stdout.isatty()),
        *(f"{name} {_version(name)}" for name in _LIBRARIES),
        *(word for word in argv if word not in HELP),
        *_sources(_PACKAGE),
    ]
    key = hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogateescape"))
    return cache_root() / "help" / f"{command.replace(' ', '-')}-{key.hexdigest()[:16]}.txt"


def _version(library: str) -> str:
    # Not by its metadata alone, which an environment may have without the package.
    try:
        return metadata.version(library) if is_installed(library) else ""
    except metadata.PackageNotFoundError:
        return ""


def _sources(folder: Path) -> Iterator[str]:
    """Each file that a help may come from, with its size and when it was written. Nothing is read: that would
    take longer than the rest."""
    # Some folders are links.
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(files):
            if name.endswith(_NAMED_BY_HELP):
                stat = os.stat(os.path.join(parent, name))
                yield f"{parent}/{name} {stat.st_size} {stat.st_mtime_ns}"
