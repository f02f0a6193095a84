"""The two interfaces behind which every embedding model stands: for clips and texts, and for texts alone.

Knows frames and arrays. Must not know any model library, index or program: a model is imported only when it
is loaded (`modules.encoders.load_encoder`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from videopro.video import uniform_times

if TYPE_CHECKING:
    from videopro.video import Frame


class VideoTextEncoder(ABC):
    """Puts clips and texts into one space, where a dot product says how well they fit.

    Embeddings are float32 rows of length 1. Thread safe: one call computes at a time.
    """

    name: str
    """As `load_encoder` was given it."""
    clip_frames: int
    """Frames that stand for one clip."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """All that embeddings rest on (kind, weights' fingerprint, frames, precision), as plain data."""

    @abstractmethod
    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) in pixels at which frames of a video of that size are wanted."""

    @abstractmethod
    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        """(n, d) of n clips, each of `clip_frames` frames in order of time, all of one size. `ValueError`
        for another number of frames."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) of n texts; what exceeds the model's text length is cut off."""

    def clip_times(self, start: float, end: float) -> list[float]:
        """Seconds at which a clip's frames are taken: the midpoints of `clip_frames` equal parts."""
        return uniform_times(start, end, self.clip_frames)

    def check(self, clips: Sequence[Sequence[Frame]]) -> None:
        """`ValueError` unless each clip has `clip_frames` frames."""
        for frames in clips:
            if len(frames) != self.clip_frames:
                raise ValueError(
                    f"{self.name}: a clip of {len(frames)} frames; this encoder takes {self.clip_frames}"
                )


class TextEncoder(ABC):
    """Puts texts and the queries that look for them into one space; float32 rows of length 1."""

    name: str

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """All that embeddings rest on, as plain data."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) of n texts that are to be found."""

    @abstractmethod
    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """(n, d) of n queries, with the model's own prompt for queries where it has one."""


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """(n, d) float32, each row divided by its length."""
    rows = np.asarray(rows, dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
