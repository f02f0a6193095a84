"""Features of the pocket world's chunks and captions by the pocket encoder's frozen towers, computed once for
all runs on them.

    python -m videopro.train.pocket.chunk_features --output FOLDER

Writes `train.npz`, `val.npz` and `test.npz`. Chunks of val and test are decoded from the world's videos.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from videopro.cli import CommandLine, counted, exit_status, setting
from videopro.modules.models.encoders import pocket_folder
from videopro.modules.models.encoders.languagebind import LanguageBindEncoder
from videopro.pocket import world
from videopro.pocket.script import Script
from videopro.train.pocket.architecture import FRAME_SIZE
from videopro.train.pocket.chunk_pairs import (
    CHUNKS,
    chunk_times,
    draw_chunks,
    events,
    split_scripts,
    train_scripts,
    visible_attributes,
)
from videopro.video import Video

VIDEOS = 450  # of the training pool


@dataclass(frozen=True)
class ChunkFeatureSettings:
    """What is computed."""

    output: Path = field(metadata=setting("folder for SPLIT.npz"))
    videos: int = field(default=VIDEOS, metadata=setting("number of training videos"))
    splits: tuple[str, ...] = field(default=("train", "val", "test"), metadata=setting("splits to compute"))


COMMAND = CommandLine(
    "videopro.train.pocket.chunk_features",
    ChunkFeatureSettings,
    summary="Compute features of the pocket world's chunks and captions by the pocket encoder's towers.",
)


@dataclass(frozen=True)
class ChunkFeatures:
    """Chunks and captions of many videos. `h` is the towers' width, before their projections."""

    frames: np.ndarray
    """(chunks, 16, h) float32: each frame by the vision tower."""
    captions: np.ndarray
    """(captions, h) float32, by the text tower."""
    own: np.ndarray
    """(captions,) int: the chunk that has most of the captioned scene."""
    shown: np.ndarray
    """(captions,) int: the number of that chunk's frames that show the scene."""
    facts: np.ndarray
    """(captions,) str: captions with the same facts fit each other's chunks."""
    chunk_facts: np.ndarray
    """(chunks,) str: JSON lists of the facts of the events that a chunk's frames show."""

    @classmethod
    def load(cls, path: Path) -> ChunkFeatures:
        with np.load(path) as stored:
            return cls(**{name: stored[name] for name in cls.__dataclass_fields__})

    def fit(self, captions: np.ndarray, chunks: np.ndarray) -> np.ndarray:
        """(captions, chunks) bool: whether a chunk shows an event of the caption's facts, or is its own."""
        attributes_of_chunks = [set(json.loads(str(attributes))) for attributes in self.chunk_facts[chunks]]
        named = [str(attributes) for attributes in self.facts[captions]]
        fits = np.array(
            [[attributes in chunk for chunk in attributes_of_chunks] for attributes in named], dtype=bool
        )
        return fits | (self.own[captions][:, None] == chunks[None])


def compute(
    scripts: Sequence[Script], chunks_of: Callable[[int], list[list[np.ndarray]]], title: str
) -> ChunkFeatures:
    """The features of videos, of which `chunks_of(number)` gives the frames of each chunk."""
    encoder = LanguageBindEncoder(str(pocket_folder()), device="cpu")
    frames, captions, own_chunks, frame_counts, attributes, chunk_attributes = [], [], [], [], [], []
    for number, plan in enumerate(counted(scripts, title)):
        with torch.inference_mode():
            frames += [encoder.still_states(chunk).numpy() for chunk in chunks_of(number)]
        for event in events(plan):
            captions.append(event.text)
            own_chunks.append(number * CHUNKS + event.chunk)
            frame_counts.append(event.frames)
            attributes.append(" ".join(event.attributes))
        chunk_attributes += [
            json.dumps(sorted(" ".join(scene) for scene in seen)) for seen in visible_attributes(plan)
        ]
    with torch.inference_mode():
        read = [encoder.text_states(captions[at : at + 64]).numpy() for at in range(0, len(captions), 64)]
    return ChunkFeatures(
        np.stack(frames), np.concatenate(read), np.array(own_chunks), np.array(frame_counts),
        np.array(attributes), np.array(chunk_attributes),
    )  # fmt: skip


def of_training(count: int) -> ChunkFeatures:
    """Features of `count` training videos, of which only the chunks' frames are drawn."""
    scripts = list(train_scripts(count))
    return compute(scripts, lambda number: [[*chunk] for chunk in draw_chunks(scripts[number])], "train")


def of_split(split: str) -> ChunkFeatures:
    """Features of a split of the world, whose videos are made if they are missing."""
    names, scripts = zip(*split_scripts(split), strict=True)
    folder = world.ensure(split)

    def chunks_of(number: int) -> list[list[np.ndarray]]:
        video = Video.open(folder / "videos" / f"{names[number]}.mp4")
        times = chunk_times(scripts[number].duration)
        frames = video.frames([time for chunk in times for time in chunk], size=FRAME_SIZE)
        decoded = iter(frames)
        return [[next(decoded).image for _ in chunk] for chunk in times]

    return compute(scripts, chunks_of, split)


def write_features(settings: ChunkFeatureSettings) -> None:
    """Compute and write each split."""
    torch.set_num_threads(1)
    settings.output.mkdir(parents=True, exist_ok=True)
    for split in settings.splits:
        features = of_training(settings.videos) if split == "train" else of_split(split)
        np.savez(settings.output / f"{split}.npz", **vars(features))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; splits that are done are kept") as status:
        write_features(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
