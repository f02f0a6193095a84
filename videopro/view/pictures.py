"""Which pictures of a video the pages show, and by what key a page asks for one.

Knows traces. Nothing is decoded here (`videopro.view.thumbnails`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from videopro.traces import FrameRef
from videopro.video import uniform_times

STRIP = 16
"""Pictures in a video's strip."""

Crop = tuple[float, float, float, float]


@dataclass(frozen=True)
class Picture:
    """What is on display at `time` seconds, or the part of it in `box` (x0, y0, x1, y1 in 0..1)."""

    time: float
    box: Crop | None = None

    @property
    def key(self) -> str:
        """The same for equal pictures of a video."""
        corners = "" if self.box is None else "".join(f",{one:.4f}" for one in self.box)
        return f"{self.time:.3f}{corners}"


def picture_of(frame: FrameRef) -> Picture:
    """The picture that a frame reference stands for."""
    if len(frame) < 7:
        return Picture(round(frame[0], 3))
    x0, y0, x1, y1 = (round(one, 4) for one in frame[3:7])
    return Picture(round(frame[0], 3), (x0, y0, x1, y1))


def spread(items: Sequence[FrameRef], most: int) -> list[FrameRef]:
    """At most `most` of them, evenly."""
    if len(items) <= most:
        return list(items)
    return [items[int((n + 0.5) * len(items) / most)] for n in range(most)]


def strip_times(duration: float) -> list[float]:
    """The times of a video's strip."""
    return [round(time, 3) for time in uniform_times(0.0, duration, STRIP)] if duration > 0 else []


def set_name(path: str, id: str) -> str:
    """The name of a video's files. `id`: the content that the run saw, "" where it saw none; other content at
    the same path has another name."""
    return hashlib.sha256(f"{path}\0{id}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class VideoPictures:
    """The pictures of one video that a run's pages show."""

    path: str
    id: str
    pictures: dict[str, Picture] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its files."""
        return set_name(self.path, self.id)

    def add(self, pictures: Iterable[Picture]) -> None:
        """Want these too."""
        self.pictures.update((one.key, one) for one in pictures)
