"""Decodes a file from its start to its end, for those in which no search leads to a picture."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from videopro.video.decoding.exact import MOST_THREADS, DecodedPictures, damaged, painted, processors
from videopro.video.decoding.opening import Deadline, open_container
from videopro.video.decoding.picture import RgbConverter
from videopro.video.decoding.probe import Probe
from videopro.video.decoding.reader import Reader


def pictures_in_one_pass(
    probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float, part: int
) -> Generator[tuple[list[int], DecodedPictures], None, None]:
    """What `pictures_at` gives for ascending ticks, `part` of them at a time, with every picture of the file
    decoded once. Raises as `pictures_at`."""
    painter, left = RgbConverter(), len(ticks)
    with open_container(probe.path, deadline := Deadline(timeout)) as container:
        reader = Reader(container, probe.path, deadline, threads=min(processors(), MOST_THREADS))
        shown, pictures = list[int](), DecodedPictures()
        for tick, pts, picture in reader.on_display(ticks):
            shown.append(tick)
            pictures.at[tick] = pts
            if pts not in pictures.images:
                pictures.images[pts] = painted(painter, picture, probe, pts, size)
            left -= 1
            if len(shown) == part or left == 0:
                yield shown, pictures
                shown, pictures = [], DecodedPictures()
            # Only now: the consumer may have taken its time.
            deadline.renew()
    if left:
        raise damaged(probe, ticks[-left])
