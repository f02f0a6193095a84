"""Thumbnails of a video as JPEG sheets with an index: few files, however many pictures.

A video is decoded in one pass over the pictures that all its questions need; pictures of an earlier command
are kept, and only missing ones are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

from videopro.errors import VideoError
from videopro.report.pages.pictures import Picture, VideoPictures
from videopro.report.pages.script import assignment, read_assignment
from videopro.storage import write_atomically
from videopro.video import Video

SIDE = 320
"""The longer side of a picture, in pixels, unless a setting says otherwise: pages show pictures small, and
large when they are clicked."""
_COLUMNS, _ROWS = 8, 8
_QUALITY = 74
# The longer side of frames that crops are cut from; without crops, frames are decoded at thumbnail size.
_CUT_FROM = 1280
# Seconds from a damaged picture within which an intact one is searched.
_NEAR = 60.0
# Times are rounded to the millisecond; this offset (s) keeps a rounded-down time on the same frame.
_LATER = 0.0006


@dataclass
class ThumbnailSheets:
    """The thumbnails of a video: its size in pixels, and for each key the position on a sheet."""

    width: int = 0
    height: int = 0
    side: int = 0
    """The longer side of a picture."""
    error: str = ""
    """Why pictures are missing."""
    sheets: list[list[int]] = field(default_factory=list)
    """(width, height) of each sheet."""
    cells: dict[str, list[int]] = field(default_factory=dict)
    """key -> sheet, left, top, width, height."""

    def lacks(self, video: VideoPictures) -> list[Picture]:
        """The wanted pictures that are not there yet."""
        return [picture for key, picture in video.pictures.items() if key not in self.cells]


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
    """Make a video's missing pictures; all of them, if those that are there have another `side`. An
    unreadable video is reported in `error` instead of raised, as the pages are useful without its pictures.
    Raises OSError if files cannot be written."""
    before = read_sheets(folder, pictures.name)
    sheets = before if before.side == side else ThumbnailSheets(side=side)
    missing = sheets.lacks(pictures)
    if not missing:
        return sheets
    sheets.error = ""
    try:
        # What may stand in for a damaged picture is left out below.
        video = Video.open(pictures.path, nearest_intact=_NEAR)
        if pictures.id and video.id != pictures.id:
            sheets.error = f"{pictures.path}: is not the file that the run used; its pictures would mislead"
        else:
            sheets.width, sheets.height = video.width, video.height
            sheet = _Sheet(_fit(video.width, video.height, side))
            try:
                for picture, image in _decoded(video, missing, side):
                    if sheet.is_full:
                        _save(sheet, pictures.name, folder, sheets)
                        sheet = _Sheet(sheet.slot)
                    sheet.add(picture.key, image)
            finally:
                _save(sheet, pictures.name, folder, sheets)
    except VideoError as error:
        sheets.error = str(error)
    if not sheets.cells:
        # Pictures of another size are better than none.
        sheets = replace(before, error=sheets.error)
    write_atomically(folder / f"{pictures.name}.js", assignment("pictures", pictures.name, vars(sheets)))
    return sheets


def _decoded(video: Video, pictures: Iterable[Picture], side: int) -> Iterator[tuple[Picture, Image.Image]]:
    """The pictures in order of time; crops are cut out."""
    by_time: dict[float, list[Picture]] = {}
    for picture in pictures:
        by_time.setdefault(picture.time, []).append(picture)
    times = sorted(by_time)
    cuts = any(picture.box is not None for group in by_time.values() for picture in group)
    width, height = _fit(video.width, video.height, max(_CUT_FROM, side) if cuts else side)
    with closing(video.stream([time + _LATER for time in times], size=(height, width))) as frames:
        for time, frame in zip(times, frames, strict=True):
            for picture in by_time[time] if not frame.wanted else ():
                region = frame if picture.box is None else frame.crop(picture.box)
                yield picture, Image.fromarray(np.ascontiguousarray(region.image))


def _fit(width: int, height: int, side: int) -> tuple[int, int]:
    """The size with the same aspect ratio whose longer side is at most `side`."""
    scale = min(1.0, side / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


class _Sheet:
    """A sheet being filled. `slot`: (width, height) of a cell."""

    def __init__(self, slot: tuple[int, int]) -> None:
        self.slot = slot
        self.cells: dict[str, list[int]] = {}
        self._image = Image.new("RGB", (slot[0] * _COLUMNS, slot[1] * _ROWS))

    @property
    def is_full(self) -> bool:
        return len(self.cells) == _COLUMNS * _ROWS

    def add(self, key: str, image: Image.Image) -> None:
        """Add a picture, scaled down if it does not fit."""
        image.thumbnail(self.slot, Image.Resampling.LANCZOS)
        row, column = divmod(len(self.cells), _COLUMNS)
        left, top = column * self.slot[0], row * self.slot[1]
        self._image.paste(image, (left, top))
        self.cells[key] = [left, top, *image.size]

    def cut(self) -> Image.Image:
        """The sheet without its empty rows and columns."""
        rows = -(-len(self.cells) // _COLUMNS)
        columns = min(len(self.cells), _COLUMNS)
        return self._image.crop((0, 0, columns * self.slot[0], rows * self.slot[1]))


def _save(sheet: _Sheet, name: str, folder: Path, sheets: ThumbnailSheets) -> None:
    if not sheet.cells:
        return
    number = len(sheets.sheets)
    image, path = sheet.cut(), folder / f"{name}-{number}.jpg"
    new = path.with_name(f".{path.name}.new")
    image.save(new, "JPEG", quality=_QUALITY, optimize=True)
    new.replace(path)
    sheets.sheets.append(list(image.size))
    sheets.cells.update((key, [number, *corner]) for key, corner in sheet.cells.items())
