"""What the server allows: sizes, times, places in the line, and who may ask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from videopro.errors import ConfigError

GIB = 2**30
SUBTITLE_BYTES = 32 * 2**20
"""Largest file of subtitles."""


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """The limits of a server; `videopro serve` makes them of its settings."""

    at_once: int = 4
    """Questions that are answered at a time; the others wait in line."""
    waiting: int = 256
    """Questions that may wait; one more is refused (429)."""
    seconds: float = 1800.0
    """Time limit of a question, from when it is begun."""
    film_bytes: int = 8 * GIB
    """Largest film."""
    store_bytes: int = 64 * GIB
    """All uploaded films together."""
    json_bytes: int = 2**20
    """Largest body of a request without a file."""
    keys: tuple[str, ...] = ()
    """One of them is needed; empty: none."""
    hosts: tuple[str, ...] = ()
    """Names by which the server may be called, besides "localhost" and addresses."""
    origins: tuple[str, ...] = ()
    """Web sites whose pages may call it from a browser; empty: its own page alone."""
    folders: tuple[Path, ...] = ()
    """Folders whose films may be asked about by their relative paths."""

    def __post_init__(self) -> None:
        for name in ("at_once", "film_bytes", "store_bytes", "json_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.waiting < 0:
            raise ConfigError(f"waiting is {self.waiting}; it must be 0 or more")
        if not self.seconds > 0:
            raise ConfigError(f"seconds is {self.seconds:g}; it must be above 0")
        for folder in self.folders:
            if not folder.is_dir():
                raise ConfigError(f"--folders {folder}: is no folder; give one that is there")
