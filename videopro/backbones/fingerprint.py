"""A cheap fingerprint of a model's folder, by which a run records the weights it used."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

_LARGEST_WHOLE_FILE = 64 * 2**20
"""Largest file, in bytes, that is hashed completely."""
_BLOCK = 2**20
_BLOCKS = 16
# Files that affect a model's answers; training states, logs, cards and measurements do not.
_PATTERNS = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.txt", "*.model")
_IGNORED = ("trainer_state.json", "training_record.json", "figures.json")


def folder_fingerprint(folder: Path, *, also: Sequence[str] = ()) -> str:
    """16 hex digits over the names and contents of a model's files. `also`: further patterns of such files.

    A file of up to 64 MiB is hashed completely. Of a larger file, the size and 16 blocks of 1 MiB are hashed,
    evenly spread from the first byte (the safetensors header with every tensor's name, type and offset) to
    the last. Weights that differ only between the blocks get the same fingerprint; training changes all.

    A `videopro.json` with versions is left out: how a model is asked is in a run's key by itself, and the
    same weights have the same fingerprint whatever wrote them.
    """
    digest = hashlib.sha256()
    # A set, because a file may fit several patterns, and sorted, because folders have no order.
    for path in sorted({path for pattern in (*_PATTERNS, *also) for path in folder.glob(pattern)}):
        if path.is_file() and path.name not in _IGNORED and not _is_dated_record(path):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(_digest(path))
    return digest.hexdigest()[:16]


def _is_dated_record(path: Path) -> bool:
    return path.name == "videopro.json" and b'"versions"' in path.read_bytes()


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _LARGEST_WHOLE_FILE:
            while block := file.read(_BLOCK):
                digest.update(block)
        else:
            for i in range(_BLOCKS):
                file.seek((size - _BLOCK) * i // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.digest()
