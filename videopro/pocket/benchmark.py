"""The pocket world as a benchmark: its videos are drawn when first needed, and kept. A split's folder has the
format of `videopro.benchmarks.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from videopro.benchmarks import ROBUST, Benchmark, Item, LoadableBenchmark, LoadOptions, Protocol, load_folder
from videopro.cli import cache_root
from videopro.pocket import world

# Pocket questions ask for one letter, which our own parser reads for the official score too.
PROTOCOL = Protocol(parser=ROBUST)


class PocketBenchmark(LoadableBenchmark):
    """Questions about generated videos; the split "fresh" is another world, from a seed of the user's."""

    name = "pocket"
    splits = ("test", "train", "val", "fresh")
    protocols = ()
    holds = "none: its videos are generated"
    training_split = "train"
    needs_root = False

    def load(self, root: Path | None, split: str, given: LoadOptions) -> Benchmark:
        """See `LoadableBenchmark.load`. `root`: a folder that already contains a split (questions.jsonl and
        videos/); then nothing is drawn."""
        self._refuse(given, "protocol", "annotations")
        split = split or self.splits[0]
        if root is not None:
            return load_folder(root, name=self.name, split=split, protocol=PROTOCOL)

        def fetch(items: Sequence[Item]) -> None:
            world.ensure(split, seed=given.world_seed, videos={item.video.stem for item in items})

        folder = world.ensure(split, seed=given.world_seed, videos=())
        benchmark = load_folder(folder, name=self.name, split=split, protocol=PROTOCOL)
        version = world.fingerprint() + ("" if given.world_seed is None else f", seed {given.world_seed}")
        return replace(benchmark, version=version, fetch=fetch)

    def drawn_from(self, split: str, world_seed: int | None = None) -> Mapping[str, tuple[str, int]]:
        return {name: (length, seed) for name, length, seed in world.video_names(split, world_seed)}

    def held_out(self) -> Iterable[tuple[str, Mapping[str, tuple[str, int]], Iterable[Path]]]:
        for split in ("val", "test"):
            # Worlds of every fingerprint: the test split of an older world is not training data either.
            files = sorted(cache_root().glob(f"pocket-*/{split}/videos/*.mp4"))
            yield split, self.drawn_from(split), files


POCKET = PocketBenchmark()
