"""The two interfaces behind which every embedding model stands: for clips and texts, and for texts alone.

Imports no model library: a model is imported only when it is loaded
(`videopro.modules.models.encoders.load_encoder`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from videopro.video import uniform_times

if TYPE_CHECKING:
    import torch

    from videopro.video import Frame


T = TypeVar("T")

BATCH_SIZE = 16
"""Clips or texts that go through a model together."""


class VideoTextEncoder(ABC):
    """Puts clips and texts into one space, where a dot product says how well they fit.

    Embeddings are float32 rows of length 1. Thread safe: one call computes at a time.
    """

    name: str
    """As `load_encoder` was given it."""
    clip_frames: int
    """Frames that stand for one clip."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Fast tokenizers refuse two threads at once.
        self._lock = threading.Lock()

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """All that embeddings rest on (kind, weights' fingerprint, frames, precision), as plain data."""

    @cached_property
    def width(self) -> int:
        """d, the length of an embedding."""
        return int(self.encode_texts(["0"]).shape[1])

    @abstractmethod
    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) in pixels at which frames of a video of that size are wanted."""

    @abstractmethod
    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        """(n, d) of at most `BATCH_SIZE` clips of (height, width, 3) uint8 pictures, of any length."""

    @abstractmethod
    def _embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """(n, d) of at most `BATCH_SIZE` texts, of any length."""

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        """(n, d) of n clips, each of `clip_frames` frames in order of time, all of one size. `ValueError`
        for no clip or another number of frames."""
        for frames in clips:
            if len(frames) != self.clip_frames:
                raise ValueError(
                    f"{self.name}: a clip of {len(frames)} frames; this encoder takes {self.clip_frames}"
                )
        return self._encode(self._embed_clips, [[frame.image for frame in frames] for frames in clips])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) of n texts; what exceeds the model's text length is cut off. `ValueError` for none."""
        return self._encode(self._embed_texts, texts)

    def clip_times(self, start: float, end: float) -> list[float]:
        """Seconds at which a clip's frames are taken: the midpoints of `clip_frames` equal parts."""
        return uniform_times(start, end, self.clip_frames)

    def _encode(self, embed: Callable[[Sequence[T]], torch.Tensor], items: Sequence[T]) -> np.ndarray:
        import torch
        from torch.nn.functional import normalize

        if not items:
            raise ValueError(f"{self.name}: nothing to embed")
        with self._lock, torch.inference_mode():
            rows = [embed(items[at : at + BATCH_SIZE]) for at in range(0, len(items), BATCH_SIZE)]
            vectors: np.ndarray = normalize(torch.cat(rows).float(), dim=-1).cpu().numpy()
            return vectors


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


def short_side(height: int, width: int, side: int) -> tuple[int, int]:
    """(height, width) with the shorter one `side` pixels, the other in proportion, rounded down."""
    if width < height:
        return int(height / width * side), side
    return side, int(width / height * side)
