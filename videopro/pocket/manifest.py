"""A manifest for each generated video: the sizes and hashes of its files, written when they were made, so
that a file that was truncated, damaged or swapped later is detected.

Other versions of the encoder write other bytes, so only the manifest can tell.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

# The video last: whether it is there tells whether the others must be (`find_video_fault`).
SUFFIXES = (".srt", ".mp4")
NOTE = ".json"
# Without "cpu-independent", x264's assembler for the macroblock tree decides differently from one encoding to
# the next and from one processor to another.
ENCODING = {"preset": "veryfast", "crf": "20", "x264-params": "cpu-independent=1"}


def put(stem: Path, parts: Mapping[str, Path]) -> None:
    """Move finished files, given by suffix, to `stem` plus that suffix, and write their manifest. A file that
    already exists with the same contents stays. If killed in between, the manifest does not match, and
    `find_video_fault` reports it. Raises OSError."""
    sums = {suffix: _sum(part) for suffix, part in parts.items()}
    for suffix, part in parts.items():
        path = stem.with_suffix(suffix)
        if path.is_file() and _sum(path) == sums[suffix]:
            part.unlink()
        else:
            part.replace(path)
    write_file(
        stem.with_suffix(NOTE), json.dumps({"video": stem.name, "files": sums, "encoding": ENCODING}).encode()
    )


def find_video_fault(stem: Path) -> str | None:
    """What is wrong with the files of a video; "" if there are none yet, None if all are intact."""
    if not stem.with_suffix(SUFFIXES[-1]).exists():
        return ""
    try:
        note = json.loads(stem.with_suffix(NOTE).read_bytes())
        sums = note["files"] if note["video"] == stem.name else {}
        noted = {suffix: tuple(sums[suffix]) for suffix in SUFFIXES}
        encoding = note.get("encoding")
    except OSError:
        return f"{stem.name} has no manifest"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"the manifest of {stem.name} is damaged"
    if encoding != ENCODING:
        return f"{stem.name} was encoded with other settings"
    for suffix, (size, digest) in noted.items():
        name = f"{stem.name}{suffix}"
        try:
            size_and_hash = _sum(stem.with_suffix(suffix))
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        if size_and_hash[0] != size:
            return f"{name} has {size_and_hash[0]:,} bytes, and {size:,} were written"
        if size_and_hash[1] != digest:
            return f"{name} has changed since it was written"
    return None


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    # With the process's id: several may make the same split, and must not write into each other's parts.
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _sum(path: Path) -> tuple[int, str]:
    """A file's size in bytes and the hash of its contents."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest
