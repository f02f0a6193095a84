"""Captions of events in the pocket world with the chunks that show them, for training and measuring ASP-CLIP.

A video is cut into six equal chunks, as LVAgent does it, and a chunk is seen as 16 frames. A caption tells
what an actor does in one scene, which is a part of a chunk: often only a few of its frames show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from videopro.pocket import drawing
from videopro.pocket.script import LENGTHS, Scene, Script, make_script
from videopro.pocket.world import video_names
from videopro.train.pocket.frames import downscale, encode_and_decode
from videopro.video import uniform_times

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
