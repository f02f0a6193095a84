"""The frames that VideoAgent can choose from, and the segments between those that it has seen.

A frame is named by its index in the video at the given rate, from 0: at one frame per second, index 12 is the
frame in the middle of the thirteenth second.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise

from videopro.modules.search import clip_bounds
from videopro.video import uniform_times


@dataclass(frozen=True)
class VideoSegment:
    """A part of the video between two seen frames, or between one and an end of the video."""

    number: int
    """From 1, by time."""
    start: float
    """Seconds."""
    end: float
    indices: tuple[int, ...]
    """The unseen frames in it."""


class Timeline:
    """The frames of a video at a rate."""

    def __init__(self, duration: float, fps: float) -> None:
        self.duration = duration
        self.spans = clip_bounds(duration, 1.0 / fps)
        """(start, end) in seconds of each frame's part of the video."""
        self._fps = fps

    def time(self, index: int) -> float:
        """Seconds: the middle of a frame's part."""
        start, end = self.spans[index]
        return (start + end) / 2

    def uniform(self, count: int) -> list[int]:
        """`count` frames spread evenly over the video; fewer if it has not so many."""
        last = len(self.spans) - 1
        times = uniform_times(0.0, self.duration, count)
        # A set: a short video has fewer frames than are asked for.
        return sorted({min(int(time * self._fps), last) for time in times})

    def segments(self, seen: Collection[int]) -> list[VideoSegment]:
        """The parts into which the seen frames split the video (section 3.3), without those in which no frame
        could be kept. n seen frames make n + 1 parts: part 2 lies between the first and the second."""
        borders = [-1, *sorted(seen), len(self.spans)]
        segments = []
        for number, (before, after) in enumerate(pairwise(borders), 1):
            start = 0.0 if before < 0 else self.time(before)
            end = self.duration if after == len(self.spans) else self.time(after)
            indices = tuple(range(before + 1, after))
            if any(not neighbours(index, seen) for index in indices):
                segments.append(VideoSegment(number, start, end, indices))
        return segments

    def unseen(self, seen: Collection[int]) -> VideoSegment:
        """The whole video as one segment, for retrieval without segment selection."""
        indices = tuple(index for index in range(len(self.spans)) if index not in seen)
        return VideoSegment(1, 0.0, self.duration, indices)

    def middles(self, seen: Collection[int], count: int) -> list[int]:
        """Up to `count` frames, each in the middle of the longest segment, which it splits."""
        chosen: list[int] = []
        for _ in range(count):
            segments = self.segments([*seen, *chosen])
            if not segments:
                break
            longest = max(segments, key=lambda segment: len(segment.indices))
            chosen.append(longest.indices[len(longest.indices) // 2])
        return sorted(chosen)


def neighbours(index: int, candidates: Collection[int]) -> list[int]:
    """Those of the candidates that are next to a frame in time."""
    return [other for other in (index - 1, index + 1) if other in candidates]


def without_neighbours(seen: Collection[int], scores: Mapping[int, float]) -> list[int]:
    """Those of the frames with scores that are chosen, best first: none is next to a seen frame
    or to a better one. Of equal scores, the earlier frame is chosen."""
    chosen: list[int] = []
    for index in sorted(scores, key=lambda index: (-scores[index], index)):
        if not neighbours(index, [*seen, *chosen]):
            chosen.append(index)
    return chosen
