"""What the boxes of an MP4 or QuickTime file promise, read before FFmpeg takes their word for it.

Knows ISO/IEC 14496-12. Must not know anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_WITH_DATA = (b"mdat", b"moov", b"moof")
_TO_SAMPLES = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def promised_end(file: BinaryIO, size: int) -> int:
    """Where the data that the header promises end, in bytes from the start: those of the data-bearing boxes,
    or those of a video track whose samples all have one size."""
    end = 0
    for kind, _, stop in _boxes(file, 0, size):
        if kind in _WITH_DATA:
            end = max(end, stop)
    for each, count in _video_sizes(file, size):
        end = max(end, each * count)
    return end


def video_samples(file: BinaryIO, size: int) -> int:
    """The largest number of samples that a video track claims."""
    return max((count for _, count in _video_sizes(file, size)), default=0)


def _video_sizes(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """(bytes of each sample, or 0 where they differ; number of samples) of every video track.

    Sound is left out: QuickTime counts its samples in other units than bytes.
    """
    for media in _find(file, 0, size, _TO_SAMPLES[:3]):
        handlers = [_read(file, begin + 8, 4) for kind, begin, _ in _boxes(file, *media) if kind == b"hdlr"]
        if b"vide" not in handlers:
            continue
        for table in _find(file, *media, _TO_SAMPLES[3:]):
            for kind, begin, _ in _boxes(file, *table):
                if kind == b"stsz":
                    body = _read(file, begin + 4, 8)
                    yield int.from_bytes(body[:4], "big"), int.from_bytes(body[4:], "big")


def _find(file: BinaryIO, begin: int, end: int, names: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """(begin, end) of the bodies of the boxes that lie at that path of names."""
    if not names:
        yield begin, end
        return
    for kind, start, stop in _boxes(file, begin, end):
        if kind == names[0]:
            yield from _find(file, start, min(stop, end), names[1:])


def _boxes(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, begin of the body, end) of each box between two places; the end of the last may lie beyond."""
    while begin + 8 <= end:
        head = _read(file, begin, 16)
        length, body = int.from_bytes(head[:4], "big"), begin + 8
        if length == 1 and len(head) == 16:
            length, body = int.from_bytes(head[8:], "big"), begin + 16
        if length < 8:  # 0: up to the end of the file; less than a head: padding or damage, left to FFmpeg
            return
        yield head[4:8], body, begin + length
        begin += length


def _read(file: BinaryIO, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)
