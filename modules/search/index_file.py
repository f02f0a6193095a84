"""The files of an index: rows of length 1, with whose they are and a hash. What is damaged, or is of another
video or encoder, is never taken.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

_NAME, _METADATA, _HASH = "vectors", "whose", "sha256"
# Rows of length 1 in float32, whatever precision they were computed in.
_LENGTH = 1e-3


class DamagedIndex(Exception):
    """A file that is not as it was made; the text says in what."""


def read_rows(path: Path, whose: str, shape: tuple[int, int]) -> np.ndarray | None:
    """The (n, d) float32 rows of a file; None if there is none. Raises DamagedIndex for one that is damaged,
    of another shape, or not `whose`."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="np") as file:
            noted = file.metadata() or {}
            if noted.get(_METADATA) != whose:
                raise DamagedIndex("is of another video or encoder, or of an older version")
            part = file.get_slice(_NAME)
            found = tuple(part.get_shape())
            # Looked at before it is read: a header may claim any size.
            if found != shape or part.get_dtype() != "F32":
                raise DamagedIndex(f"holds {found} of {part.get_dtype()}, not {shape} of F32")
            rows: np.ndarray = file.get_tensor(_NAME)
    except (OSError, SafetensorError) as error:
        raise DamagedIndex(f"is damaged ({str(error).strip().splitlines()[0]})") from error
    if hashlib.sha256(rows.tobytes()).hexdigest() != noted.get(_HASH):
        raise DamagedIndex("is damaged (its contents do not fit their hash)")
    wrong = find_defect(rows)
    if wrong is not None:
        raise DamagedIndex(f"has a row that {wrong}")
    return rows


def find_defect(rows: np.ndarray) -> str | None:
    """What is wrong with rows that should be of length 1; None if nothing."""
    if not np.isfinite(rows).all():
        return "is not finite"
    lengths = np.linalg.norm(rows, axis=1)
    worst = lengths[np.argmax(np.abs(lengths - 1))]
    return None if abs(worst - 1) <= _LENGTH else f"is of length {worst:.3g}, not 1"


def write_rows(path: Path, whose: str, rows: np.ndarray) -> None:
    """Write a file as a whole or not at all. Raises OSError."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    noted = {_METADATA: whose, _HASH: hashlib.sha256(rows.tobytes()).hexdigest()}
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(save({_NAME: rows}, metadata=noted))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
