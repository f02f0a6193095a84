"""A checkpoint's folder: written under another name and renamed once complete, with a manifest of its files,
by which it is checked for damage before anything of it is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from videopro.storage import non_finite_in, parse_json

MANIFEST = "checkpoint_files.json"
UNFINISHED = "unfinished"
"""The folder, in a run's folder, that holds a checkpoint while it is being written."""

# Larger files are identified by size only: reading them again would take as long as writing them.
HASHED_BYTES = 2 << 30
_NAME = re.compile(r"checkpoint-(\d+)")


def checkpoints(output: Path) -> list[Path]:
    """The checkpoints in a run's folder, complete or not, the latest first."""
    if not output.is_dir():
        return []
    folders = [entry for entry in output.iterdir() if entry.is_dir()]
    return sorted((folder for folder in folders if _NAME.fullmatch(folder.name)), key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was saved, from its name."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match is not None
    return int(match[1])


def write_manifest(folder: Path, lengths: Mapping[str, int]) -> None:
    """Write a manifest of a folder's files into it, and flush all of it to disk. `lengths`: the present
    length of each of the run's logs, in bytes. Raises OSError."""
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    content = {"files": {name: file_identity(folder / name) for name in names}, "logs": dict(lengths)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for path in (*(folder / name for name in names), folder / MANIFEST, folder):
        _flush(path)


def file_identity(file: Path) -> dict[str, Any]:
    """What identifies a file's content: its size in bytes and, unless it is large, its SHA-256."""
    size = file.stat().st_size
    if size > HASHED_BYTES:
        return {"size": size}
    with file.open("rb") as content:
        return {"size": size, "sha256": hashlib.file_digest(content, "sha256").hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `write_manifest` wrote. Raises OSError, or ValueError for a damaged one."""
    content = parse_json((folder / MANIFEST).read_bytes())
    if not isinstance(content, dict) or not all(isinstance(content.get(n), dict) for n in ("files", "logs")):
        raise ValueError("it lists no files")
    return content


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


def publish_checkpoint(staged: Path, target: Path) -> None:
    """Rename a file or folder to `target`, replacing what is there. Raises OSError."""
    # `os.replace` does not replace a folder that has files.
    if target.is_dir():
        discard(target)
    os.replace(staged, target)
    _flush(target.parent)


def keep_latest(output: Path, limit: int | None, best: Path | None) -> None:
    """Delete the oldest checkpoints until `limit` are left, but never the latest or the `best`. None or 0
    keeps all."""
    saved = checkpoints(output)
    protected = {*saved[:1], best} & set(saved)
    surplus = len(saved) - max(limit or len(saved), len(protected))
    deletable = [checkpoint for checkpoint in reversed(saved) if checkpoint not in protected]
    for checkpoint in deletable[: max(0, surplus)]:
        discard(checkpoint)


def discard(folder: Path) -> None:
    """Delete a folder; renamed first, so that a half-deleted one is not mistaken for a complete one."""
    renamed = folder.with_name(f"deleted-{folder.name}")
    # What an earlier kill has left.
    remove(renamed)
    os.rename(folder, renamed)
    remove(renamed)


def remove(path: Path) -> None:
    """Delete a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def truncate_log(log: Path, length: int) -> None:
    """Cut a log back to `length` bytes, if it is longer."""
    if log.exists() and log.stat().st_size > length:
        os.truncate(log, length)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
