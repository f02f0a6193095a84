"""A checkpoint's folder: written beside its place and put there when it is whole, with a list of its files by
which a damaged one is told.

Knows files; must not know trainers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videopro.storage import parse_json

MANIFEST = "checkpoint_files.json"
UNFINISHED = "unfinished"
"""In a run's folder: where a checkpoint is while it is being written."""

# Larger files are known by their size alone: reading them again would take as long as writing them.
HASHED_BYTES = 2 << 30
_NAME = re.compile(r"checkpoint-(\d+)")


def checkpoints(output: Path) -> list[Path]:
    """The checkpoints in a run's folder, whole or not, the latest first."""
    if not output.is_dir():
        return []
    found = {one: _NAME.fullmatch(one.name) for one in output.iterdir() if one.is_dir()}
    return sorted((one for one, match in found.items() if match), key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step after which it was saved, by its name."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match is not None
    return int(match[1])


def write_manifest(folder: Path, lengths: Mapping[str, int]) -> None:
    """List the files of a folder in it and have all of it on the disk. `lengths`: of the run's logs, in
    bytes, at this moment. Raises OSError."""
    names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
    content = {"files": {name: file_facts(folder / name) for name in names}, "logs": dict(lengths)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for one in (*(folder / name for name in names), folder / MANIFEST, folder):
        _flush(one)


def file_facts(file: Path) -> dict[str, Any]:
    """What a file is known by: its size in bytes and, unless it is large, its SHA-256."""
    size = file.stat().st_size
    if size > HASHED_BYTES:
        return {"size": size}
    with file.open("rb") as content:
        return {"size": size, "sha256": hashlib.file_digest(content, "sha256").hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What `seal` wrote; None where it wrote nothing. Raises ValueError for a manifest that is damaged."""
    try:
        content = parse_json((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(content, dict) or not all(isinstance(content.get(n), dict) for n in ("files", "logs")):
        raise ValueError("it lists no files")
    return content


def publish_checkpoint(made: Path, place: Path) -> None:
    """Rename a file or folder, over whatever is at its place. Raises OSError."""
    if place.is_dir():
        discard(place)
    os.replace(made, place)
    _flush(place.parent)


def keep_latest(output: Path, limit: int | None, best: Path | None) -> None:
    """Delete the oldest checkpoints until `limit` are left, but neither the latest nor the `best`; None or 0:
    all are kept."""
    found = checkpoints(output)
    kept = {*found[:1], best} & set(found)
    surplus = len(found) - max(limit or len(found), len(kept))
    for one in [one for one in reversed(found) if one not in kept][: max(0, surplus)]:
        discard(one)


def discard(folder: Path) -> None:
    """Delete a folder so that nobody takes what is left of it for the whole."""
    going = folder.with_name(f"deleted-{folder.name}")
    remove(going)
    os.rename(folder, going)
    remove(going)


def remove(path: Path) -> None:
    """Delete a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def truncate_log(log: Path, length: int) -> None:
    """Take from a log what was appended since it was so long."""
    if log.exists() and log.stat().st_size > length:
        os.truncate(log, length)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
