"""The pictures of a video that the pages show, and their keys; `thumbnails` decodes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from videopro.traces import FrameRef
from videopro.video import uniform_times

STRIP = 16
"""Number of pictures in a video's strip."""

Crop = tuple[float, float, float, float]


@dataclass(frozen=True)
class Picture:
    """The frame shown at `time` (s), or its crop `box` (x0, y0, x1, y1 in 0..1)."""

    time: float
    box: Crop | None = None

    @property
    def key(self) -> str:
        """A key that is equal for equal pictures of a video."""
        corners = "" if self.box is None else "".join(f",{value:.4f}" for value in self.box)
        return f"{self.time:.3f}{corners}"


def picture_of(frame: FrameRef) -> Picture:
    """The picture of a frame reference."""
    if len(frame) < 7:
        return Picture(round(frame[0], 3))
    x0, y0, x1, y1 = (round(value, 4) for value in frame[3:7])
    return Picture(round(frame[0], 3), (x0, y0, x1, y1))


def spread(items: Sequence[FrameRef], count: int) -> list[FrameRef]:
    """At most `count` of the items, evenly spaced."""
    if len(items) <= count:
        return list(items)
    return [items[int((n + 0.5) * len(items) / count)] for n in range(count)]


def shown_frames(
    frames: Sequence[FrameRef], max_frames: int, pictures: list[Picture]
) -> list[dict[str, Any]]:
    """At most `max_frames` of the frames, for a page; their pictures are added to `pictures`."""
    entries = []
    for ref in spread(frames, max_frames):
        picture = picture_of(ref)
        uncropped = Picture(picture.time)
        # A crop is also shown within its frame.
        pictures += [picture] if picture.box is None else [picture, uncropped]
        entries.append({"time": picture.time, "key": picture.key, "box": picture.box, "whole": uncropped.key})
    return entries


def times_of(frames: Iterable[FrameRef]) -> list[float]:
    """The different times (s) of the frames, ascending."""
    return sorted({round(frame[0], 2) for frame in frames})


def strip_times(duration: float) -> list[float]:
    """The times (s) of a video's strip."""
    return [round(time, 3) for time in uniform_times(0.0, duration, STRIP)] if duration > 0 else []


def set_name(path: str, id: str) -> str:
    """The name of a video's picture files. `id` is the hash of the content that the run read, "" if it read
    none; different content at the same path gets a different name."""
    return hashlib.sha256(f"{path}\0{id}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class VideoPictures:
    """The pictures of one video that a run's pages show."""

    path: str
    id: str
    pictures: dict[str, Picture] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the picture files."""
        return set_name(self.path, self.id)

    def add(self, pictures: Iterable[Picture]) -> None:
        """Add pictures."""
        self.pictures.update((picture.key, picture) for picture in pictures)
