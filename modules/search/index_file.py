"""The file format of an index: unit rows with their owner (video and encoder) and a hash, both checked on
reading.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from videopro.storage import write_atomically
from videopro.video import may_stand_in

_NAME, _METADATA, _HASH, _STAND_INS = "vectors", "whose", "sha256", "stand_ins"
# Tolerance of the length of float32 unit rows, whatever precision they were computed in.
_TOLERANCE = 1e-3


class DamagedIndex(Exception):
    """An index file that is damaged or belongs to something else; the message says how."""


StandIns = tuple[tuple[float, float], ...]
"""(time asked for, time of the intact frame) in s, of the frames that stand in for damaged ones."""


def read_vectors(path: Path, owner: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """The float32 rows of n clips in a file, (n, d) or (n, rows, d); None if there is no file. Raises
    DamagedIndex if it is damaged, has another shape, or another owner."""
    rows, _ = _read(path, owner, shape)
    return rows


def read_clips(
    path: Path, owner: str, shape: tuple[int, ...], nearest_intact: float
) -> tuple[np.ndarray, StandIns] | None:
    """As `read_vectors`, with the frames that stood in for damaged ones; None also if these may not
    in a run with this setting."""
    rows, metadata = _read(path, owner, shape)
    stand_ins = tuple((wanted, given) for wanted, given in json.loads(metadata.get(_STAND_INS, "[]")))
    return (rows, stand_ins) if rows is not None and may_stand_in(stand_ins, nearest_intact) else None


def _read(path: Path, owner: str, shape: tuple[int, ...]) -> tuple[np.ndarray | None, Mapping[str, str]]:
    if not path.exists():
        return None, {}
    try:
        with safe_open(path, framework="np") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            if metadata.get(_METADATA) != owner:
                raise DamagedIndex("belongs to another video or encoder")
            part = file.get_slice(_NAME)
            stored_shape = tuple(part.get_shape())
            # Checked before reading: a header may claim any size.
            if stored_shape != shape or part.get_dtype() != "F32":
                raise DamagedIndex(
                    f"has shape {stored_shape} and type {part.get_dtype()}, not {shape} and F32"
                )
            rows: np.ndarray = file.get_tensor(_NAME)
    except (OSError, SafetensorError) as error:
        raise DamagedIndex(f"is damaged ({str(error).strip().splitlines()[0]})") from error
    # safetensors checks its header, not its data.
    if hashlib.sha256(rows.tobytes()).hexdigest() != metadata.get(_HASH):
        raise DamagedIndex("is damaged (its contents do not match their hash)")
    if (defect := find_defect(rows)) is not None:
        raise DamagedIndex(f"has a row that {defect}")
    return rows, metadata


def find_defect(rows: np.ndarray) -> str | None:
    """What is wrong with rows that should be unit vectors; None if nothing is."""
    if not np.isfinite(rows).all():
        return "is not finite"
    lengths = np.linalg.norm(rows, axis=-1).ravel()
    worst = lengths[np.argmax(np.abs(lengths - 1))]
    return None if abs(worst - 1) <= _TOLERANCE else f"has length {worst:.3g}, not 1"


def write_vectors(path: Path, owner: str, rows: np.ndarray, stand_ins: StandIns = ()) -> None:
    """Write a file atomically. `stand_ins`: of the frames that the rows were made of. Raises OSError."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    metadata = {_METADATA: owner, _HASH: hashlib.sha256(rows.tobytes()).hexdigest()}
    if stand_ins:
        metadata[_STAND_INS] = json.dumps(stand_ins)
    write_atomically(path, save({_NAME: rows}, metadata=metadata), shared=True)
