"""Writing a file as a whole or not at all. Knows files; nothing of what is in them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that it is there as a whole or not at all; what could not be written leaves nothing.
    Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        # A failure to write, unlike one to open, does not say of what.
        raise OSError(error.errno, error.strerror, str(path)) from error
