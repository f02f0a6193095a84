"""The embedded pocket world as a benchmark: its videos are made when they are first asked about, and kept.

Knows the folder's shape (`videopro.benchmarks.jsonl`); of the world it knows only how to have it made.
"""

from __future__ import annotations

import fcntl
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from videopro.benchmarks.base import ROBUST, Benchmark, Item, Protocol
from videopro.benchmarks.jsonl import load_folder
from videopro.errors import BenchmarkError

# The world asks for one letter; the official reading is the letter itself, by our own reader.
PROTOCOL = Protocol(parser=ROBUST)


def load_pocket(split: str, root: Path | None = None, seed: int | None = None) -> Benchmark:
    """The questions of a split; "fresh" draws another world from `seed`.

    `root` is a folder that holds a split already (questions.jsonl and videos/); then nothing is made. Raises
    BenchmarkError for an unknown split, a folder that cannot be written, a broken folder.
    """
    if root is not None:
        return load_folder(root, name="pocket", split=split, protocol=PROTOCOL)
    # What draws the world is of no use to a run about other videos.
    from videopro.pocket import world

    def fetch(items: Sequence[Item]) -> None:
        _ensure(split, seed, {item.video.stem for item in items})

    benchmark = load_folder(_ensure(split, seed, ()), name="pocket", split=split, protocol=PROTOCOL)
    version = world.fingerprint() if seed is None else f"{world.fingerprint()}, seed {seed}"
    return replace(benchmark, version=version, fetch=fetch)


def _ensure(split: str, seed: int | None, videos: Collection[str]) -> Path:
    """Have videos made by one process at a time: ranks that start together would each make them all."""
    from videopro.pocket import world

    root = world.default_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "pocket.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return world.ensure(split, seed=seed, videos=videos)
    except OSError as error:
        raise BenchmarkError(
            f"pocket: {root} cannot be written ({error.strerror}); set VIDEOPRO_CACHE to another folder"
        ) from error
