"""The pocket world as a benchmark: its videos are generated when first needed, and kept. The folder
has the format of `videopro.benchmarks.jsonl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from videopro.benchmarks.base import ROBUST, Benchmark, Item, Protocol
from videopro.benchmarks.jsonl import load_folder

# Pocket questions ask for one letter, which our own parser reads for the official score too.
PROTOCOL = Protocol(parser=ROBUST)


def pocket_videos(split: str, seed: int | None = None) -> list[tuple[str, str, int]]:
    """The name, length and seed of each video of a split: the same length and seed draw the same video."""
    # Imported here: it imports what draws and encodes videos.
    from videopro.pocket import world

    return world.video_names(split, seed)


def load_pocket(split: str, root: Path | None = None, seed: int | None = None) -> Benchmark:
    """The questions of a split; "fresh" generates another world from `seed`.

    `root` is a folder that already contains a split (questions.jsonl and videos/); then nothing is generated.
    Raises BenchmarkError for an unknown split, or a folder that is invalid or cannot be written.
    """
    if root is not None:
        return load_folder(root, name="pocket", split=split, protocol=PROTOCOL)
    # Imported here: it imports what draws and encodes videos.
    from videopro.pocket import world

    def fetch(items: Sequence[Item]) -> None:
        world.ensure(split, seed=seed, videos={item.video.stem for item in items})

    folder = world.ensure(split, seed=seed, videos=())
    benchmark = load_folder(folder, name="pocket", split=split, protocol=PROTOCOL)
    version = world.fingerprint() if seed is None else f"{world.fingerprint()}, seed {seed}"
    return replace(benchmark, version=version, fetch=fetch)
