"""Which uploaded films are pocket videos: their models know no others, and refuse all that they do not
recognise."""

from __future__ import annotations

import json
from collections.abc import Iterator

from videopro.cli import cache_root
from videopro.pocket import NOTE


def is_made_here(size: int, digest: str) -> bool:
    """Whether a file of this content is a pocket video of this machine."""
    return any(fingerprint == (size, digest) for fingerprint in _fingerprints())


def _fingerprints() -> Iterator[tuple[int, str]]:
    """The sizes and SHA-256 of the pocket videos that were made on this machine."""
    for note in cache_root().glob(f"pocket-*/*/videos/*{NOTE}"):
        try:
            yield from [tuple(file) for file in json.loads(note.read_bytes())["files"].values()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
