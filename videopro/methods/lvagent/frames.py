"""Times of frames in parts of a video, each part getting a share in proportion to its length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videopro.video import Video


def randomly(rng: np.random.Generator, spans: Sequence[tuple[float, float]], count: int) -> list[float]:
    """`count` times drawn uniformly from the spans (s), sorted."""
    return times_at(spans, np.sort(rng.uniform(0.0, _total(spans), count)).tolist())


def has_pictures(video: Video, spans: Sequence[tuple[float, float]], count: int) -> bool:
    """Whether the spans have at least `count` pictures. Two of the times that are drawn may show the same one
    nevertheless, which is then shown twice."""
    return video.fps * _total(spans) >= count


def _total(spans: Sequence[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def times_at(spans: Sequence[tuple[float, float]], offsets: Sequence[float]) -> list[float]:
    """The times at these offsets from the start of the spans put together."""
    lengths = np.array([end - start for start, end in spans])
    ends = np.cumsum(lengths)
    # The end of the last span belongs to it, also after rounding.
    indices = np.minimum(np.searchsorted(ends, offsets, side="right"), len(spans) - 1)
    return [
        float(spans[index][0] + offset - (ends[index] - lengths[index]))
        for index, offset in zip(indices, offsets, strict=True)
    ]
