"""The embedded pocket world as a benchmark: its videos are made when they are first asked about, and kept.

Knows the folder's shape (`videopro.benchmarks.jsonl`); of the world it knows only how to have it made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from videopro.benchmarks.base import ROBUST, Benchmark, Item, Protocol
from videopro.benchmarks.jsonl import load_folder

# The world asks for one letter; the official reading is the letter itself, by our own reader.
PROTOCOL = Protocol(parser=ROBUST)


def load_pocket(split: str, root: Path | None = None, seed: int | None = None) -> Benchmark:
    """The questions of a split; "fresh" draws another world from `seed`.

    `root` is a folder that holds a split already (questions.jsonl and videos/); then nothing is made. Raises
    BenchmarkError for an unknown split, a folder that cannot be written, a broken folder.
    """
    if root is not None:
        return load_folder(root, name="pocket", split=split, protocol=PROTOCOL)
    # By name: the world stands above benchmarks, and what draws it is of no use to a run about other videos.
    world = import_module("videopro.pocket.world")

    def fetch(items: Sequence[Item]) -> None:
        world.ensure(split, seed=seed, videos={item.video.stem for item in items})

    folder = world.ensure(split, seed=seed, videos=())
    benchmark = load_folder(folder, name="pocket", split=split, protocol=PROTOCOL)
    version = world.fingerprint() if seed is None else f"{world.fingerprint()}, seed {seed}"
    return replace(benchmark, version=version, fetch=fetch)
