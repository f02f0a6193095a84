"""What the files of a made video hold: their sizes and hashes, noted when they were made, so that a file that
was cut, damaged or swapped since is known.

Encoders of other versions write other bytes, so nothing but the note tells.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

SUFFIXES = (".srt", ".mp4")
_NOTE = ".json"


def put(stem: Path, parts: Mapping[str, Path]) -> None:
    """Put finished files, given by suffix, in the place of `stem` and that suffix, and note what they hold.
    One that is there already with the same contents stays. Killed in between, the note does not fit, and
    `find_fault` says so. Raises OSError."""
    sums = {suffix: _sum(part) for suffix, part in parts.items()}
    for suffix, part in parts.items():
        place = stem.with_suffix(suffix)
        if place.is_file() and _sum(place) == sums[suffix]:
            part.unlink()
        else:
            part.replace(place)
    write_whole(stem.with_suffix(_NOTE), json.dumps({"video": stem.name, "files": sums}).encode())


def find_fault(stem: Path) -> str | None:
    """What is wrong with the files of a video; "" if there is none yet, None if all is as it was made."""
    if not stem.with_suffix(SUFFIXES[-1]).exists():
        return ""
    try:
        note = json.loads(stem.with_suffix(_NOTE).read_bytes())
        sums = note["files"] if note["video"] == stem.name else {}
        noted = {suffix: tuple(sums[suffix]) for suffix in SUFFIXES}
    except OSError:
        return f"{stem.name} was made without a note on what it holds"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"the note on {stem.name} is damaged"
    for suffix, (size, digest) in noted.items():
        name = f"{stem.name}{suffix}"
        try:
            found = _sum(stem.with_suffix(suffix))
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        if found[0] != size:
            return f"{name} has {found[0]:,} bytes, and {size:,} were made"
        if found[1] != digest:
            return f"{name} has other contents than were made"
    return None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or not at all. Raises OSError."""
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
