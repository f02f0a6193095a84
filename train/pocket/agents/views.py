"""Frames of videos that are drawn from their script at any times, without making their files.

Frames go through H.264, as in `videopro.train.pocket.frames`. The seeds are beyond those of every split.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from videopro.pocket import drawing
from videopro.pocket.script import LENGTHS, Scene, make_script
from videopro.train.pocket.frames import downscale, encode_and_decode

VIEW_SEED = 7_000_000


class DrawnVideo:
    """A video of the pocket world."""

    def __init__(self, number: int) -> None:
        self.length = LENGTHS[number % len(LENGTHS)]
        self.script = make_script(self.length, VIEW_SEED + number)
        self._views: dict[int, drawing.SceneView] = {}

    @cached_property
    def duration(self) -> float:
        """Seconds."""
        return self.script.duration

    def scene_at(self, time: float) -> Scene:
        """The scene on display at a time (s)."""
        scenes = self.script.scenes
        # The very end of the video belongs to the last scene.
        return next((scene for scene in scenes if scene.start <= time < scene.end), scenes[-1])

    def frames(self, times: Sequence[float], crf: int = 21) -> np.ndarray:
        """(n, 96, 160, 3) uint8 frames at `times` (s), in order, at the pocket model's size."""
        pictures = []
        for time in times:
            scene = self.scene_at(time)
            if scene.seed not in self._views:
                self._views[scene.seed] = drawing.SceneView(
                    scene.place, self.script.weather, scene.actor, scene.sign, scene.seed
                )
            # On the raster of the world's frames, as its video files have them.
            inside = min(int(time * drawing.FPS) / drawing.FPS, scene.end) - scene.start
            pictures.append(self._views[scene.seed].draw(inside, scene.start + inside))
        return np.stack([downscale(frame) for frame in encode_and_decode(pictures, crf)])
