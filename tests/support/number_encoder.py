"""An encoder without a model, for tests: quick to import in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.support.making_videos import read_number
from videopro.modules.models.encoders.interfaces import VideoTextEncoder
from videopro.modules.search.clip_index import CLIP_SECONDS, ClipIndex, _Place
from videopro.video import Frame, Video

if TYPE_CHECKING:
    import torch


class NumberEncoder(VideoTextEncoder):
    """Reads the number painted on each frame (`making_videos`). A text is a number: the clip whose middle
    frame is nearest to it fits best. Notes what it was given; raises after `fails_after` clips."""

    clip_frames = 3

    def __init__(self, version: int = 1, fails_after: int | None = None) -> None:
        super().__init__("numbers")
        self.version, self.left = version, fails_after
        self.seen: list[list[int]] = []

    def identity(self) -> dict[str, object]:
        return {"encoder": "numbers", "version": self.version}

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        if self.left is not None:
            self.left -= len(clips)
            if self.left < 0:
                raise RuntimeError("killed")
        numbers = [[read_number(frame.image) for frame in frames] for frames in clips]
        self.seen += numbers
        return np.stack([_direction(row[1]) for row in numbers])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([_direction(float(text)) for text in texts])

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        raise NotImplementedError

    def _embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        raise NotImplementedError


def _direction(number: float) -> np.ndarray:
    """A unit vector that turns with the number, half a turn over all that can be painted."""
    angle = number / 512 * np.pi
    return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)


def load_index(
    video: Video, encoder: VideoTextEncoder, *, clip_seconds: float = CLIP_SECONDS, root: Path | None = None
) -> ClipIndex | None:
    """The index on disk; None if it is missing, or was damaged and is removed."""
    return _Place(video, encoder, clip_seconds, root).load()
