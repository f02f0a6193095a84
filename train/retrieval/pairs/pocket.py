"""Caption-video pairs of the pocket world's train split: each event with the sixth of its video that has most
of it."""

from __future__ import annotations

from pathlib import Path

from videopro.pocket import world
from videopro.train.pocket import chunk_bounds, events, split_scripts
from videopro.train.retrieval.pairs.caption_pairs import CaptionPair, CaptionPairs, Units


def load_pocket(root: Path, units: Units) -> CaptionPairs:
    """The pairs, with their sixth or the whole video. The videos are made in `root` if they are missing.
    Raises BenchmarkError if they cannot be written."""
    folder, pairs = world.ensure("train", root), CaptionPairs()
    for name, plan in split_scripts("train"):
        bounds = chunk_bounds(plan.duration)
        for event in events(plan):
            start, end = bounds[event.chunk] if units == "segments" else (0.0, None)
            pairs.pairs.append(CaptionPair(event.text, folder / "videos" / f"{name}.mp4", start, end))
    return pairs
