"""The frames that VideoAgent can choose from, and the segments between those that it has seen.

A frame is named by its place in the video at the given rate, from 0: at one frame per second, place 12 is the
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
    places: tuple[int, ...]
    """The unseen frames in it."""


class Timeline:
    """The frames of a video at a rate."""

    def __init__(self, duration: float, fps: float) -> None:
        self.duration = duration
        self.spans = clip_bounds(duration, 1.0 / fps)
        """(start, end) in seconds of each frame's part of the video."""
        self._fps = fps

    def time(self, place: int) -> float:
        """Seconds: the middle of a frame's part."""
        start, end = self.spans[place]
        return (start + end) / 2

    def uniform(self, count: int) -> list[int]:
        """`count` frames spread evenly over the video; fewer if it has not so many."""
        last = len(self.spans) - 1
        times = uniform_times(0.0, self.duration, count)
        return sorted({min(int(time * self._fps), last) for time in times})

    def segments(self, seen: Collection[int]) -> list[VideoSegment]:
        """The parts into which the seen frames split the video (section 3.3), without those in which no frame
        could be kept. n seen frames make n + 1 parts: part 2 lies between the first and the second."""
        borders = [-1, *sorted(seen), len(self.spans)]
        found = []
        for number, (before, after) in enumerate(pairwise(borders), 1):
            start = 0.0 if before < 0 else self.time(before)
            end = self.duration if after == len(self.spans) else self.time(after)
            places = tuple(range(before + 1, after))
            if any(not neighbours(place, seen) for place in places):
                found.append(VideoSegment(number, start, end, places))
        return found

    def unseen(self, seen: Collection[int]) -> VideoSegment:
        """The whole video as one segment, for retrieval without segment selection."""
        places = tuple(place for place in range(len(self.spans)) if place not in seen)
        return VideoSegment(1, 0.0, self.duration, places)

    def middles(self, seen: Collection[int], count: int) -> list[int]:
        """Up to `count` frames, each in the middle of the longest segment, which it splits."""
        taken: list[int] = []
        for _ in range(count):
            segments = self.segments([*seen, *taken])
            if not segments:
                break
            longest = max(segments, key=lambda segment: len(segment.places))
            taken.append(longest.places[len(longest.places) // 2])
        return sorted(taken)


def neighbours(place: int, others: Collection[int]) -> list[int]:
    """Those of the others that are next to a frame in time."""
    return [other for other in (place - 1, place + 1) if other in others]


def without_neighbours(seen: Collection[int], found: Mapping[int, float]) -> list[int]:
    """Those of the found frames (with their scores) that are kept, best first: none is next to a seen frame
    or to a better found one. Of equal scores, the earlier frame is kept."""
    kept: list[int] = []
    for place in sorted(found, key=lambda place: (-found[place], place)):
        if not neighbours(place, [*seen, *kept]):
            kept.append(place)
    return kept
