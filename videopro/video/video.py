"""A video file: the frames on display at given times, with their true times.

Frames are found by presentation time, never by counting.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from videopro.errors import ConfigError, VideoError
from videopro.video.decoding import Probe, exact, probe_video, stream
from videopro.video.frame_store import FrameStore, shared_store
from videopro.video.shapes import LARGEST_SIDE

__all__ = [
    "NEAREST_INTACT_HELP",
    "Frame",
    "FrameStore",
    "Video",
    "check_nearest_intact",
    "distinct_frames",
    "fps_times",
    "may_stand_in",
    "shared_store",
    "stand_ins_in",
    "uniform_times",
]

logger = logging.getLogger(__name__)

NEAREST_INTACT_HELP = (
    "replace a damaged frame with the nearest intact one within this many seconds (recorded in traces); 0: "
    "fail"
)


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame of a video, or a crop of one."""

    image: np.ndarray = field(repr=False)
    """(height, width, 3) uint8 RGB, read-only."""
    time: float
    """Seconds from the start of the video: the presentation time minus the file's start offset."""
    video: str = ""
    """Content id of the file (`Video.id`)."""
    box: tuple[float, float, float, float] | None = None
    """x0, y0, x1, y1 in 0..1 of the full frame for a crop; None for a full frame."""
    wanted: tuple[float, ...] = ()
    """The requested times (s) of damaged frames that this frame replaces."""

    def crop(self, box: tuple[float, float, float, float]) -> Frame:
        """The part within `box` (x0, y0, x1, y1 in 0..1 of this frame), rounded outwards to whole pixels.

        The crop's `box` is relative to the full frame, through any number of crops. Raises VideoError for a
        box that is empty or extends beyond the frame.
        """
        if len(box) != 4 or not all(math.isfinite(v) for v in box):
            raise VideoError(f"box {box!r}: give four numbers x0, y0, x1, y1 in 0..1")
        x0, y0, x1, y1 = (float(v) for v in box)
        if not (0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1):
            raise VideoError(
                f"box {box!r}: it must be inside the frame, with 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1"
            )
        height, width = self.image.shape[:2]
        left, right = _span(x0, x1, width)
        top, bottom = _span(y0, y1, height)
        image = self.image[top:bottom, left:right].copy()  # a view would keep the whole frame in memory
        image.flags.writeable = False
        fx0, fy0, fx1, fy1 = self.box or (0.0, 0.0, 1.0, 1.0)
        within = (
            fx0 + x0 * (fx1 - fx0),
            fy0 + y0 * (fy1 - fy0),
            fx0 + x1 * (fx1 - fx0),
            fy0 + y1 * (fy1 - fy0),
        )
        return replace(self, image=image, box=within)


def _span(low: float, high: float, pixels: int) -> tuple[int, int]:
    """The pixel range that covers low..high (0..1); differences of a millionth of a pixel are rounding
    errors."""
    first = min(math.floor(low * pixels + 1e-6), pixels - 1)
    return first, max(first + 1, math.ceil(high * pixels - 1e-6))


class Video:
    """A probed video file, not kept open: cheap to store, copy and send to another process.

    Every read failure is a VideoError, raised within bounded time.
    """

    path: Path
    id: str
    """Hash of the content (`videopro.video.decoding.opening.content_id`)."""
    duration: float
    """Seconds from the start to the end of the last frame, from the data (not the header)."""
    fps: float
    """Average frames per second from the container; sampling does not use it."""
    width: int
    """Pixels upright (rotation applied), with square pixels."""
    height: int
    rotation: int
    """Degrees clockwise (0, 90, 180 or 270) by which stored frames are rotated for display; `Frame`s are
    upright."""
    codec: str
    notes: tuple[str, ...]
    """Oddities of the file's times, such as a header with a different duration; usually empty."""
    nearest_intact: float
    """Maximum seconds from a requested time to an intact frame that replaces a damaged one."""

    def __init__(self, probe: Probe, timeout: float, store: FrameStore | None) -> None:
        """Use `Video.open`."""
        self._probe = probe
        self._timeout = timeout
        self._store = store
        self.path = probe.path
        self.id = probe.id
        self.duration = probe.duration
        self.fps = probe.fps
        self.height, self.width = probe.shape.upright
        self.rotation = probe.shape.turn.degrees
        self.codec = probe.codec
        self.notes = probe.notes
        self.nearest_intact = probe.nearest_intact
        self._stand_ins: dict[int, int] = {}
        """Tick -> timestamp of the picture that replaces the damaged one there."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        timeout: float = 30.0,
        store: FrameStore | None = None,
        nearest_intact: float = 0.0,
    ) -> Video:
        """Open a file: decode its first frame, read its last packets.

        `timeout`: seconds for opening the file, and later for each frame. `store` None: the one shared by the
        process (`shared_store`). `nearest_intact`: seconds within which the nearest intact frame replaces a
        damaged one; 0: a damaged frame raises VideoError. Raises VideoError unless the file is complete and
        has a video track with plausible times.
        """
        if not (timeout > 0 and math.isfinite(timeout)):
            raise VideoError(f"timeout is {timeout!r}; it must be above 0 (seconds)")
        check_nearest_intact(nearest_intact)
        probe = replace(probe_video(Path(path), timeout), nearest_intact=nearest_intact)
        for note in probe.notes:
            logger.warning("%s: %s", path, note)
        return cls(probe, timeout, store)

    def __repr__(self) -> str:
        return f"Video({str(self.path)!r}, {self.duration:.3f} s, {self.width}x{self.height}, {self.codec})"

    def frames(self, times: Sequence[float], *, size: tuple[int, int] | None = None) -> list[Frame]:
        """The frames on display at `times` (seconds from the start), one per time, in that order.

        The frame on display at t is the last one with a presentation time <= t, or the first frame for an
        earlier t. `size` is (height, width) of the result; None keeps the video's own. Frames in the store
        are not decoded again; the same frame requested twice is the same array.
        """
        for time in times:
            if not math.isfinite(time):
                raise VideoError(f"{self.path}: {time!r} is not a time; pass finite seconds")
        height, width = size if size is not None else (self.height, self.width)
        if not (0 < height <= LARGEST_SIDE and 0 < width <= LARGEST_SIDE):
            raise VideoError(
                f"{self.path}: size is {size!r}; pass (height, width) from 1 to {LARGEST_SIDE} pixels"
            )
        size = (int(height), int(width))
        probe = self._probe
        ticks = [probe.tick(time) for time in times]
        images = self._images(sorted(set(ticks)), size)
        return [
            self._frame(time, *images[tick], is_stand_in=tick in self._stand_ins)
            for time, tick in zip(times, ticks, strict=True)
        ]

    def _frame(self, time: float, pts: int, image: np.ndarray, is_stand_in: bool) -> Frame:
        wanted = (float(time),) if is_stand_in else ()
        return Frame(image, self._probe.time(pts), self.id, wanted=wanted)

    def sample(
        self, n: int, *, start: float = 0.0, end: float | None = None, size: tuple[int, int] | None = None
    ) -> list[Frame]:
        """Frames at the midpoints of `n` equal parts of start..end (None: the whole video): `n`, or each
        frame once if there are fewer."""
        times = uniform_times(start, self.duration if end is None else end, n)
        return distinct_frames(self.frames(times, size=size))

    def stream(
        self, times: Iterable[float], *, size: tuple[int, int] | None = None
    ) -> Generator[Frame, None, None]:
        """Yield the frames that `frames` would return, in order of time, in a single pass over the file.

        Threads decode a few groups of pictures ahead, so a long video takes little memory and the consumer
        rarely waits. The store is neither read nor filled. Close the generator if you do not exhaust it.
        `times` as in `frames`, ascending.
        """
        ascending, (height, width) = list(times), size if size is not None else (self.height, self.width)
        if any(not math.isfinite(time) for time in ascending) or ascending != sorted(ascending):
            raise VideoError(f"{self.path}: pass finite times in seconds, in ascending order")
        probe = self._probe
        probe.check_unchanged()
        ticks = [probe.tick(time) for time in ascending]
        pictures = stream.in_order(probe, ticks, (int(height), int(width)), self._timeout)
        for time, (pts, image, is_stand_in) in zip(ascending, pictures, strict=True):
            yield self._frame(time, pts, image, is_stand_in)

    def damage(self, times: Sequence[float]) -> list[tuple[float, float]]:
        """The damaged parts (start, end in s) that contain the frames on display at `times`, in order."""
        ticks = [self._probe.tick(time) for time in times]
        spans = exact.damaged_spans(self._probe, ticks, self._timeout)
        return [(self._probe.time(start), self._probe.time(end)) for start, end in spans]

    def _images(self, ticks: list[int], size: tuple[int, int]) -> dict[int, tuple[int, np.ndarray]]:
        """Tick -> (timestamp shown, pixels), from the store or decoded."""
        store = self._store if self._store is not None else shared_store()
        images: dict[int, tuple[int, np.ndarray]] = {}

        def look_up() -> list[int]:
            left = []
            for tick in ticks:
                if tick in images:
                    continue
                pts = self._stand_ins.get(tick, store.timestamp_at(self.id, tick))
                image = store.get((self.id, pts, size)) if pts is not None else None
                if pts is None or image is None:
                    left.append(tick)
                else:
                    images[tick] = (pts, image)
            return left

        if not look_up():
            return images
        with store.decoding(self.id):
            # Once more: another thread may have decoded them while this one waited.
            left = look_up()
            if left:
                self._probe.check_unchanged()
                have: dict[int, np.ndarray] = {}

                def is_cached(pts: int) -> bool:
                    image = store.get((self.id, pts, size))
                    if image is not None:
                        have[pts] = image
                    return image is not None

                pictures = exact.pictures_at(self._probe, left, size, is_cached, self._timeout)
                self._probe.check_unchanged()
                for pts, image in pictures.images.items():
                    store.put((self.id, pts, size), image)
                have.update(pictures.images)
                for tick, pts in pictures.at.items():
                    if tick in pictures.damaged:
                        self._stand_ins[tick] = pts
                    else:
                        store.note_timestamp(self.id, tick, pts)
                    images[tick] = (pts, have[pts])
        return images


def distinct_frames(frames: Iterable[Frame]) -> list[Frame]:
    """Each frame once, with its true time. If a video has fewer frames than times (a slide show, a short
    clip), one frame is on display at several times; it may replace several damaged ones."""
    distinct: dict[tuple[str, float, tuple[float, ...] | None], Frame] = {}
    for frame in frames:
        key = (frame.video, frame.time, frame.box)
        known = distinct.get(key)
        # Twice for one time, if it is asked for twice.
        wanted = () if known is None else tuple(dict.fromkeys((*known.wanted, *frame.wanted)))
        distinct[key] = frame if known is None else replace(known, wanted=wanted)
    return list(distinct.values())


def stand_ins_in(frames: Iterable[Frame]) -> tuple[tuple[float, float], ...]:
    """(requested time, time of the intact frame) in s, for frames that replace damaged ones."""
    return tuple((round(time, 3), round(frame.time, 3)) for frame in frames for time in frame.wanted)


def may_stand_in(stand_ins: Iterable[tuple[float, float]], nearest_intact: float) -> bool:
    """Whether what was made of such frames (`stand_ins_in`) is what a run with this setting would make."""
    # Their times are in ms.
    return all(abs(wanted - given) <= nearest_intact + 1e-3 for wanted, given in stand_ins)


def check_nearest_intact(seconds: float) -> None:
    """Raise ConfigError for an invalid `nearest_intact`."""
    if not (0 <= seconds < math.inf):
        raise ConfigError(f"nearest_intact is {seconds}; pass seconds, or 0 to replace no frame")


def uniform_times(start: float, end: float, n: int) -> list[float]:
    """Midpoints of `n` equal parts of start..end, in seconds: start + (i + 0.5) * (end - start) / n."""
    _check_interval(start, end)
    if n < 1:
        raise VideoError(f"{n} frames requested; request at least 1")
    return [start + (i + 0.5) * (end - start) / n for i in range(n)]


def fps_times(start: float, end: float, fps: float, cap: int) -> list[float]:
    """`fps` times per second over start..end, in the middle of each 1/fps, at least one; if that is more than
    `cap`, `cap` uniform times instead."""
    _check_interval(start, end)
    if not (fps > 0 and math.isfinite(fps)):
        raise VideoError(f"fps is {fps!r}; it must be above 0")
    if cap < 1:
        raise VideoError(f"cap is {cap} frames; it must be at least 1")
    # A thousandth of a frame counts as rounding: 10 s at 0.1 frames per second is one frame, not none.
    n = math.floor((end - start) * fps + 1e-3)
    if n < 1 or n > cap:
        return uniform_times(start, end, max(1, min(n, cap)))
    return [start + (i + 0.5) / fps for i in range(n)]


def _check_interval(start: float, end: float) -> None:
    if not (math.isfinite(start) and math.isfinite(end) and start <= end):
        raise VideoError(f"interval is {start!r} to {end!r} s; pass finite seconds, start first")
