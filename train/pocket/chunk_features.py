"""Features of the pocket world's chunks and captions by the pocket encoder's frozen towers, computed once for
all runs on them.

A video is cut into six equal chunks, as LVAgent does it, and a chunk is seen as 16 frames. A caption tells
what an actor does in one scene, which is a part of a chunk: often only a few of its frames show it.

Writes `train.npz`, `val.npz` and `test.npz`. Chunks of val and test are decoded from the world's videos.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from videopro.cli import counted
from videopro.modules.models.encoders.languagebind import LanguageBindEncoder
from videopro.pocket import drawing, world
from videopro.pocket.encoders import ENCODER
from videopro.pocket.script import LENGTHS, Scene, Script, make_script
from videopro.pocket.world import video_names
from videopro.train.pocket.architecture import FRAME_SIZE
from videopro.train.pocket.frames import downscale, encode_and_decode
from videopro.video import Video, uniform_times

CHUNKS, CHUNK_FRAMES = 6, 16
TRAIN_SEED = 7_000_000  # of scripts that no split and no other pool has
_FORMS = (
    "a {color} {shape} {move} at the {place}",
    "the {shape} at the {place} is {color} and {move}",
    "at the {place} a {color} {shape} {move}",
)


@dataclass(frozen=True)
class Event:
    """What an actor does in one scene, with the chunks that show it."""

    text: str
    attributes: tuple[str, str, str, str]
    """Place, shape, color and move. Two events with the same facts fit each other's chunks."""
    chunk: int
    """The chunk with most of the scene."""
    frames: int
    """How many of that chunk's 16 frames show the scene; may be 0."""


def chunk_bounds(duration: float) -> list[tuple[float, float]]:
    """(start, end) in seconds of the chunks of a video."""
    return list(pairwise(np.linspace(0, duration, CHUNKS + 1).tolist()))


def chunk_times(duration: float) -> list[list[float]]:
    """The seconds of each chunk's frames: the midpoints of 16 equal parts."""
    return [uniform_times(start, end, CHUNK_FRAMES) for start, end in chunk_bounds(duration)]


def events(plan: Script) -> list[Event]:
    """The events of a video, in order. The wording depends on the video's seed."""
    # From the video's seed: its captions are the same, whoever asks for them and in which order.
    rng = np.random.default_rng([TRAIN_SEED, plan.seed])
    times, captioned = chunk_times(plan.duration), []
    for scene in plan.scenes:
        if scene.actor is None:
            continue
        shared = [min(end, scene.end) - max(start, scene.start) for start, end in chunk_bounds(plan.duration)]
        chunk = int(np.argmax(shared))
        look = scene.actor
        attributes = (scene.place, look.shape, look.color, look.move)
        values = dict(zip(("place", "shape", "color", "move"), attributes, strict=True))
        frame_count = sum(scene.start <= time < scene.end for time in times[chunk])
        captioned.append(Event(str(rng.choice(_FORMS)).format(**values), attributes, chunk, frame_count))
    return captioned


def visible_attributes(plan: Script) -> list[set[tuple[str, str, str, str]]]:
    """For each chunk, the facts of the scenes that at least one of its frames shows."""
    chunks = []
    for times in chunk_times(plan.duration):
        scenes = [_scene_at(plan, time) for time in times]
        chunks.append({(s.place, s.actor.shape, s.actor.color, s.actor.move) for s in scenes if s.actor})
    return chunks


def train_scripts(count: int) -> Iterator[Script]:
    """Scripts of training videos, the lengths in turn."""
    for number in range(count):
        yield make_script(LENGTHS[number % len(LENGTHS)], TRAIN_SEED + number)


def split_scripts(split: str) -> Iterator[tuple[str, Script]]:
    """(name, script) of each video of a split of the world."""
    for name, length, seed in video_names(split):
        yield name, make_script(length, seed)


def draw_chunks(plan: Script) -> list[np.ndarray]:
    """The frames of each chunk of a video, (16, 96, 160, 3) uint8, drawn and encoded without the rest of the
    video."""
    # The third number keeps these draws apart from those of the captions.
    rng = np.random.default_rng([TRAIN_SEED, plan.seed, 1])
    pictures = []
    for times in chunk_times(plan.duration):
        for time in times:
            scene = _scene_at(plan, time)
            view = drawing.SceneView(scene.place, plan.weather, scene.actor, scene.sign, scene.seed)
            pictures.append(view.draw(int(time * drawing.FPS) / drawing.FPS - scene.start, time))
    small = [downscale(frame) for frame in encode_and_decode(pictures, int(rng.integers(18, 25)))]
    return [np.stack(small[at : at + CHUNK_FRAMES]) for at in range(0, len(small), CHUNK_FRAMES)]


def _scene_at(plan: Script, time: float) -> Scene:
    return next(scene for scene in plan.scenes if scene.start <= time < scene.end)


VIDEOS = 450  # of the training pool


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
    encoder = LanguageBindEncoder(ENCODER.checkpoint, device="cpu")
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


def write_features(output: Path, splits: Sequence[str]) -> None:
    """Compute and write `SPLIT.npz` of each split that the folder does not have."""
    torch.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    for split in splits:
        path = output / f"{split}.npz"
        if not path.exists():
            np.savez(path, **vars(of_training(VIDEOS) if split == "train" else of_split(split)))
