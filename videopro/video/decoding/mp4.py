"""What the boxes of an MP4 or QuickTime file (ISO/IEC 14496-12) claim, read before FFmpeg relies on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

# Bytes; enough for 8 million pictures that all differ in duration.
_LARGEST_TABLE = 64 << 20
_WITH_DATA = (b"mdat", b"moov", b"moof")
_TO_SAMPLES = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def promised_end(file: BinaryIO, size: int) -> int:
    """Byte offset at which the data claimed by the header end: the end of the data-bearing boxes, or of a
    video track whose samples all have the same size."""
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


@dataclass(frozen=True)
class TrackClock:
    """The timing tables of a video track."""

    scale: int
    """Ticks per second."""
    duration: int
    """Ticks; 0 if the header does not give it."""
    counts: np.ndarray
    """How many consecutive samples last for each of `deltas` ticks, which may be negative; empty for a
    fragmented track."""
    deltas: np.ndarray


def video_clocks(file: BinaryIO, size: int) -> Iterator[TrackClock]:
    """The clock of every video track with a header."""
    for media in _video_media(file, size):
        header: tuple[int, int] | None = None
        counts, deltas = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for kind, begin, _ in _boxes(file, *media):
            if kind == b"mdhd":
                header = _scale_and_duration(_read(file, begin, 32))
        for table in _find(file, *media, _TO_SAMPLES[3:]):
            for kind, begin, end in _boxes(file, *table):
                if kind == b"stts":
                    entries = int.from_bytes(_read(file, begin + 4, 4), "big")
                    data = _read(file, begin + 8, min(entries * 8, end - begin - 8, _LARGEST_TABLE))
                    pairs = np.frombuffer(data[: len(data) // 8 * 8], ">u4").reshape(-1, 2)
                    # Unsigned in the file, but FFmpeg reads them as signed.
                    counts, deltas = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int32)
        if header is not None:
            yield TrackClock(*header, counts, deltas)


def movies(file: BinaryIO, size: int) -> int:
    """How many videos the file holds, one after another."""
    return sum(kind == b"moov" for kind, _, _ in _boxes(file, 0, size))


def stated_seconds(file: BinaryIO, size: int) -> float | None:
    """The duration in the movie header; None if it is missing or only covers a part (fragments)."""
    for movie in _find(file, 0, size, (b"moov",)):
        boxes = {kind: begin for kind, begin, _ in _boxes(file, *movie)}
        if b"mvhd" in boxes and b"mvex" not in boxes:
            scale, duration = _scale_and_duration(_read(file, boxes[b"mvhd"], 32))
            return duration / scale if scale and duration else None
    return None


def _scale_and_duration(header: bytes) -> tuple[int, int]:
    """(scale, duration) from the body of a movie or media header; an unknown duration is 0."""
    at, length = (20, 8) if header[:1] == b"\x01" else (12, 4)
    duration = header[at + 4 : at + 4 + length]
    is_stated = duration != b"\xff" * length
    return int.from_bytes(header[at : at + 4], "big"), int.from_bytes(duration, "big") * is_stated


def _video_sizes(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """(bytes of each sample, or 0 where they differ; number of samples) of every video track.

    Audio is left out: QuickTime does not count its samples in bytes.
    """
    for media in _video_media(file, size):
        for table in _find(file, *media, _TO_SAMPLES[3:]):
            for kind, begin, _ in _boxes(file, *table):
                if kind == b"stsz":
                    body = _read(file, begin + 4, 8)
                    yield int.from_bytes(body[:4], "big"), int.from_bytes(body[4:], "big")


def _video_media(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """The bodies of the media boxes of video tracks."""
    for media in _find(file, 0, size, _TO_SAMPLES[:3]):
        handlers = [_read(file, begin + 8, 4) for kind, begin, _ in _boxes(file, *media) if kind == b"hdlr"]
        if b"vide" in handlers:
            yield media


def _find(file: BinaryIO, begin: int, end: int, names: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """(begin, end) of the bodies of the boxes at that path of names."""
    if not names:
        yield begin, end
        return
    for kind, start, stop in _boxes(file, begin, end):
        if kind == names[0]:
            yield from _find(file, start, min(stop, end), names[1:])


def _boxes(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, begin of the body, end) of each box between two offsets; the last may end beyond them."""
    while begin + 8 <= end:
        head = _read(file, begin, 16)
        length, body = int.from_bytes(head[:4], "big"), begin + 8
        if length == 1 and len(head) == 16:
            length, body = int.from_bytes(head[8:], "big"), begin + 16
        if length < 8:  # 0: up to the end of the file; less than a header: padding or damage, left to FFmpeg
            return
        yield head[4:8], body, begin + length
        begin += length


def _read(file: BinaryIO, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)
