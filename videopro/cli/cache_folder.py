"""Where files are kept that can be made again: drawn videos, clip indexes, transcripts, decoded frames."""

from __future__ import annotations

import os
from pathlib import Path

from videopro.errors import ConfigError


def cache_root() -> Path:
    """$VIDEOPRO_CACHE, else ~/.cache/videopro. Raises ConfigError for a user without a home folder, in a
    program that is none of our commands (those name another folder, see `videopro.startup`)."""
    named = os.environ.get("VIDEOPRO_CACHE")
    try:
        return Path(named).expanduser() if named else Path.home() / ".cache" / "videopro"
    except RuntimeError as error:
        raise ConfigError(
            "there is no home folder (HOME) to keep files in: set VIDEOPRO_CACHE to a folder"
        ) from error
