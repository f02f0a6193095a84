"""Checks a checkpoint for damage before anything of it is loaded: its files against the list in it, and its
weights for NaN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from videopro.storage import non_finite_in
from videopro.train.runtime.checkpoint_files import MANIFEST, file_identity, read_manifest

STATE = "trainer_state.json"


def find_fault(folder: Path) -> str | None:
    """Why a run cannot resume from a checkpoint; None for a complete one."""
    try:
        manifest = read_manifest(folder)
    except (OSError, ValueError) as error:
        return f"{MANIFEST} cannot be read ({error})"
    return next(_by_list(folder, manifest["files"]), None) or next(_holding_nan(folder), None)


def _by_list(folder: Path, recorded: Any) -> Iterator[str]:
    for name, expected in recorded.items():
        file = folder / name
        try:
            actual = file_identity(file) if file.is_file() else None
        except OSError as error:
            yield f"{name} cannot be read ({error.strerror})"
            continue
        if actual is None:
            yield f"{name} is missing"
        elif not isinstance(expected, dict) or actual["size"] != expected.get("size"):
            yield f"{name} has {actual['size']:,} bytes, but {_size(expected)} were written"
        elif actual != expected:
            yield f"{name} has changed since it was written"


def _size(expected: Any) -> str:
    size = expected.get("size") if isinstance(expected, dict) else None
    return f"{size:,}" if isinstance(size, int) else "an unknown number"


def _holding_nan(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.safetensors")):
        try:
            name = non_finite_in(file)
        except (OSError, SafetensorError) as error:
            # Of a large file, only the size was compared.
            yield f"{file.relative_to(folder)} cannot be read ({error})"
            continue
        if name is not None:
            yield f"{file.relative_to(folder)} has weights that are NaN or infinite ({name})"
