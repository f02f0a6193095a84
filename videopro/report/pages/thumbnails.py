"""Thumbnails of a video as JPEG sheets with an index: few files, however many thumbnails.

A video is decoded in one pass for the thumbnails of all its questions; thumbnails of an earlier command are
kept, and only missing ones are decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from videopro.errors import VideoError
from videopro.report.pages.script import assignment, read_assignment
from videopro.storage import write_atomically
from videopro.traces import FrameRef
from videopro.video import Video, uniform_times

STRIP = 16
"""Number of thumbnails in a video's strip."""

Crop = tuple[float, float, float, float]


@dataclass(frozen=True)
class Picture:
    """The frame shown at `time` (s), or its crop `box` (x0, y0, x1, y1 in 0..1)."""

    time: float
    box: Crop | None = None

    @property
    def key(self) -> str:
        """A key that is equal for equal thumbnails of a video."""
        corners = "" if self.box is None else "".join(f",{value:.4f}" for value in self.box)
        return f"{self.time:.3f}{corners}"


def picture_of(frame: FrameRef) -> Picture:
    """The thumbnail for a frame reference."""
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
    """At most `max_frames` of the frames, for a page; adds their thumbnails to `pictures`."""
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
    """The name of a video's thumbnail files. `id` is the hash of the content that the run read, "" if it read
    none; different content at the same path gets a different name."""
    return hashlib.sha256(f"{path}\0{id}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass
class VideoPictures:
    """The thumbnails of one video on a run's pages."""

    path: str
    id: str
    pictures: dict[str, Picture] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the thumbnail files."""
        return set_name(self.path, self.id)

    def add(self, pictures: Iterable[Picture]) -> None:
        """Add thumbnails."""
        self.pictures.update((picture.key, picture) for picture in pictures)


SIDE = 320
"""The default longer side of a thumbnail in pixels: pages show thumbnails small, and large on a click."""
_COLUMNS, _ROWS = 8, 8
_QUALITY = 74
# The longer side of frames that crops are cut from; without crops, frames are decoded at thumbnail size.
_CUT_FROM = 1280
# Seconds from a damaged picture within which an intact one is searched.
_NEAR = 60.0
LATER = 0.0006
"""Times are rounded to the millisecond; this offset (s) keeps a rounded-down time on the same frame."""


@dataclass
class ThumbnailSheets:
    """The thumbnails of a video: its size in pixels, and for each key the position on a sheet."""

    width: int = 0
    height: int = 0
    side: int = 0
    """The longer side of a thumbnail."""
    error: str = ""
    """Why thumbnails are missing."""
    sheets: list[list[int]] = field(default_factory=list)
    """(width, height) of each sheet."""
    cells: dict[str, list[int]] = field(default_factory=dict)
    """key -> sheet, left, top, width, height."""


def read_sheets(folder: Path, name: str) -> ThumbnailSheets:
    """The sheets of an earlier command; empty if it was killed before it wrote the index."""
    content = read_assignment(folder / f"{name}.js")
    try:
        sheets = ThumbnailSheets(**content) if isinstance(content, dict) else ThumbnailSheets()
    except TypeError:  # Written by another version.
        return ThumbnailSheets()
    is_complete = all((folder / f"{name}-{number}.jpg").exists() for number in range(len(sheets.sheets)))
    return sheets if is_complete else ThumbnailSheets()


def make_sheets(pictures: VideoPictures, folder: Path, side: int = SIDE) -> ThumbnailSheets:
    """Make a video's missing thumbnails; all of them, if existing ones have another `side`. An unreadable
    video is reported in `error` instead of raised, because the pages are useful without its thumbnails.
    Raises OSError if files cannot be written."""
    before = read_sheets(folder, pictures.name)
    sheets = before if before.side == side else ThumbnailSheets(side=side)
    missing = [picture for key, picture in pictures.pictures.items() if key not in sheets.cells]
    if not missing:
        return sheets
    sheets.error = ""
    try:
        video = open_video(pictures.path, pictures.id)
        sheets.width, sheets.height = video.width, video.height
        made: dict[str, Image.Image] = {}
        try:
            for picture, image in _decoded(video, missing, side):
                made[picture.key] = image
                if len(made) == _COLUMNS * _ROWS:
                    _save(made, pictures.name, folder, sheets)
                    made = {}
        finally:
            # What comes before a damaged part of the video is shown nevertheless.
            _save(made, pictures.name, folder, sheets)
    except VideoError as error:
        sheets.error = str(error)
    if not sheets.cells:
        # Pictures of another size are better than none.
        sheets = replace(before, error=sheets.error)
    write_atomically(folder / f"{pictures.name}.js", assignment("pictures", pictures.name, vars(sheets)))
    return sheets


def open_video(path: str, id: str) -> Video:
    """The video of a question, whose damaged frames others replace (`Frame.wanted`); pages leave them out.
    Raises VideoError, also unless `id` is its content's (`VideoRef.id`; empty: not known)."""
    video = Video.open(path, nearest_intact=_NEAR)
    if id and video.id != id:
        raise VideoError(f"{path}: is not the file that the run used, so no thumbnails are made")
    return video


def _decoded(video: Video, pictures: Iterable[Picture], side: int) -> Iterator[tuple[Picture, Image.Image]]:
    """The thumbnails in order of time; crops are cut out."""
    by_time: dict[float, list[Picture]] = {}
    for picture in pictures:
        by_time.setdefault(picture.time, []).append(picture)
    times = sorted(by_time)
    cuts = any(picture.box is not None for group in by_time.values() for picture in group)
    width, height = _fit(video.width, video.height, max(_CUT_FROM, side) if cuts else side)
    with closing(video.stream([time + LATER for time in times], size=(height, width))) as frames:
        for time, frame in zip(times, frames, strict=True):
            for picture in by_time[time] if not frame.wanted else ():
                region = frame if picture.box is None else frame.crop(picture.box)
                image = Image.fromarray(np.ascontiguousarray(region.image))
                # Here, so that what waits for its sheet is small.
                image.thumbnail(_fit(video.width, video.height, side), Image.Resampling.LANCZOS)
                yield picture, image


def _fit(width: int, height: int, side: int) -> tuple[int, int]:
    """The size with the same aspect ratio whose longer side is at most `side`."""
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _save(images: Mapping[str, Image.Image], name: str, folder: Path, sheets: ThumbnailSheets) -> None:
    """Write the thumbnails as another sheet of minimal size."""
    if not images:
        return
    width, height = _fit(sheets.width, sheets.height, sheets.side)
    rows, columns = -(-len(images) // _COLUMNS), min(len(images), _COLUMNS)
    sheet = Image.new("RGB", (width * columns, height * rows))
    number = len(sheets.sheets)
    for index, (key, image) in enumerate(images.items()):
        left, top = index % _COLUMNS * width, index // _COLUMNS * height
        sheet.paste(image, (left, top))
        sheets.cells[key] = [number, left, top, *image.size]
    path = folder / f"{name}-{number}.jpg"
    # Under another name until it is whole: a sheet that is there counts as made.
    new = path.with_name(f".{path.name}.new")
    sheet.save(new, "JPEG", quality=_QUALITY, optimize=True)
    new.replace(path)
    sheets.sheets.append(list(sheet.size))
