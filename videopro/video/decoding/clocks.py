"""Checks from a file's own tables and timestamps that its times are plausible, before frames are searched.

Frames are found by their time. If the time scale is zero, a track's pictures last for days beyond the end in
its header, or the clock of a stream runs backwards, any time may return any picture: such a file is refused.
Oddities that still give one picture for each time (a picture shown for hours, a header with a different end)
become notes.

Covers ISO/IEC 14496-12 (MP4) and ISO/IEC 13818-1 (transport and program streams). Reads a few MiB at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from av.container import InputContainer

from videopro.errors import VideoError

# Two durations contradict each other if they differ by more: in seconds, and as a ratio.
_APART, _TIMES_APART = 60.0, 2.0
# A picture shown for longer than this (s), and for more than this fraction of the video, gives a note.
_LONG, _MOST = 3600.0, 0.5

# Streams are sampled at this many places, this many bytes each; small files are read completely.
_SAMPLES, _BLOCK = 64, 128 * 1024
# Per second: the base of both clocks of ISO/IEC 13818-1.
_TICKS = 90_000
# A 33-bit clock wraps around after 26.5 hours, which readers handle.
_WRAP = 1 << 33
# Seconds by which a clock may step back: the parts of a stream are not in strict order.
_BACK = 0.5
_TS_PACKETS = (188, 192, 204)


@dataclass(frozen=True)
class Clocks:
    """What is known about a file's times before its packets are read."""

    stated: float | None
    """The duration in the header, in seconds; None if there is none."""
    notes: tuple[str, ...] = ()
    """Harmless oddities."""


def check_clocks(container: InputContainer, path: Path, size: int) -> Clocks:
    """Check a file's times. Raises VideoError, naming the fix, if they cannot be trusted, and OSError if the
    file cannot be read."""
    kind = container.format.name
    with open(path, "rb") as file:
        if kind.startswith("mov,"):
            # Read here, because FFmpeg changes the header's duration.
            return Clocks(stated_seconds(file, size), _check_tables(path, file, size))
        if kind in ("mpegts", "mpeg"):
            _check_stream(path, file, size, kind == "mpegts")
    return Clocks(container.duration / 1_000_000 if container.duration else None)


def differing(stated: float | None, played: float) -> tuple[str, ...]:
    """A note if the header's duration (s) differs from that of the pictures; empty if they agree."""
    if stated is None or not _apart(stated, played):
        return ()
    return (f"its header says {stated:,.0f} s, but its frames last {played:,.0f} s",)


def _apart(stated: float, played: float) -> bool:
    """Whether two durations, in seconds, contradict each other."""
    short, long = sorted((stated, played))
    return long > short * _TIMES_APART and long - short > _APART


# ---- MP4 and QuickTime ------------------------------------------------------------------------------------


def _check_tables(path: Path, file: BinaryIO, size: int) -> tuple[str, ...]:
    fix = "download it again, or rewrite its timestamps (ffmpeg -r RATE -i IN.mp4 OUT.mp4)"
    notes = []
    if len(list(_find(file, 0, size, (b"moov",)))) > 1:
        notes.append("it contains several videos in sequence; only the first is used")
    for scale, duration, pairs in _video_clocks(file, size):
        if scale == 0:
            raise VideoError(f"{path}: its time scale is 0, so its frames have no times; {fix}")
        if not pairs.size:  # in fragments
            continue
        # Unsigned in the file, but FFmpeg reads them as signed.
        lengths = np.abs(pairs[:, 1].astype(np.int32).astype(float)) / scale
        total, longest = float(lengths @ pairs[:, 0].astype(np.int64)), float(lengths.max())
        stated = duration / scale
        if stated and total > stated and _apart(total, stated):
            raise VideoError(
                f"{path}: its frames last {total:,.0f} s (one of them {longest:,.0f} s), but its header says "
                f"{stated:,.0f} s; {fix}"
            )
        if longest > _LONG and longest > total * _MOST:
            notes.append(f"one frame lasts {longest:,.0f} of its {total:,.0f} s")
    return tuple(notes)


# ---- transport and program streams ------------------------------------------------------------------------


def _check_stream(path: Path, file: BinaryIO, size: int, transport: bool) -> None:
    last: dict[int, float] = {}
    for block in _blocks(file, size):
        for clock, ticks in _transport_clocks(block) if transport else _program_clocks(block):
            for before, after in pairwise([*([last[clock]] if clock in last else []), *ticks]):
                # A step back by more than half of the clock's range is the clock that wraps around.
                if before - after > _BACK * _TICKS and before - after < _WRAP / 2:
                    raise VideoError(
                        f"{path}: its clock runs back from {before / _TICKS:.1f} to {after / _TICKS:.1f} s, "
                        f"as in concatenated streams; rewrite its timestamps: ffmpeg -i {path.name} -c copy "
                        "OUT.mp4"
                    )
            if len(ticks):
                last[clock] = ticks[-1]


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Blocks of a file in order; a small file completely."""
    # Samples, because reading hours of stream would take longer than answering. A seam is found if a sample
    # lies on each side of it.
    count = min(_SAMPLES, -(-size // _BLOCK))
    for block in range(count):
        file.seek((size - _BLOCK) * block // max(1, count - 1) if size > _BLOCK * count else block * _BLOCK)
        yield file.read(_BLOCK)


def _transport_clocks(block: bytes) -> Iterator[tuple[int, list[float]]]:
    """The program clock references (ISO/IEC 13818-1, 2.4.3.5) of each packet id in a part of a stream."""
    data = np.frombuffer(block, np.uint8)
    for length in _TS_PACKETS:
        start = _aligned(data, length)
        if start is None:
            continue
        count = (len(data) - start - 12) // length
        packets = np.lib.stride_tricks.sliding_window_view(data[start:], 12)[::length][:count].astype(
            np.int64
        )
        has = (packets[:, 3] & 0x20 > 0) & (packets[:, 4] > 6) & (packets[:, 5] & 0x10 > 0)
        clock_packets = packets[has]
        ids = (clock_packets[:, 1] & 0x1F) << 8 | clock_packets[:, 2]
        high, low = clock_packets[:, 6] << 25 | clock_packets[:, 7] << 17, clock_packets[:, 8] << 9
        base = high | low | clock_packets[:, 9] << 1 | clock_packets[:, 10] >> 7
        for packet_id in np.unique(ids):
            yield int(packet_id), base[ids == packet_id].astype(float).tolist()
        return


def _aligned(data: np.ndarray, length: int) -> int | None:
    """Where the first packet begins: five sync bytes in a row stand `length` apart."""
    if len(data) < 6 * length:
        return None
    # Five, because a single 0x47 is an ordinary byte of data.
    sync = np.all([data[k * length : (k + 1) * length] == 0x47 for k in range(5)], axis=0)
    return int(sync.argmax()) if sync.any() else None


def _program_clocks(block: bytes) -> Iterator[tuple[int, list[float]]]:
    """The system clock references of the packs (ISO/IEC 13818-1, 2.5.3.3; ISO/IEC 11172-1, 2.4.3.2)."""
    ticks = []
    at = block.find(b"\x00\x00\x01\xba")
    while 0 <= at < len(block) - 10:
        code = int.from_bytes(block[at + 4 : at + 9], "big")
        if code >> 38 == 0b01 and code & (1 << 34 | 1 << 18 | 1 << 2) == 1 << 34 | 1 << 18 | 1 << 2:
            ticks.append(float((code >> 35 & 7) << 30 | (code >> 19 & 0x7FFF) << 15 | code >> 3 & 0x7FFF))
        elif code >> 36 == 0b0010 and code & (1 << 32 | 1 << 16 | 1) == 1 << 32 | 1 << 16 | 1:
            ticks.append(float((code >> 33 & 7) << 30 | (code >> 17 & 0x7FFF) << 15 | code >> 1 & 0x7FFF))
        at = block.find(b"\x00\x00\x01\xba", at + 4)
    yield 0, ticks


# Bytes; enough for 8 million pictures that all differ in duration.
_LARGEST_TABLE = 64 << 20
_WITH_DATA = (b"mdat", b"moov", b"moof")
_TO_SAMPLES = (b"minf", b"stbl")


def promised_end(file: BinaryIO, size: int) -> int:
    """Byte offset at which the data claimed by the header end: the end of the data-bearing boxes, or of a
    video track whose samples all have the same size."""
    boxes = (stop for kind, _, stop in _boxes(file, 0, size) if kind in _WITH_DATA)
    return max([*boxes, *(each * count for each, count in _video_sizes(file, size))], default=0)


def video_samples(file: BinaryIO, size: int) -> int:
    """The largest number of samples that a video track claims."""
    return max((count for _, count in _video_sizes(file, size)), default=0)


def _video_clocks(file: BinaryIO, size: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Of every video track with a header: ticks per second, its duration in ticks (0 if it is not given), and
    rows of (how many consecutive samples, ticks that each of them lasts); none for a fragmented track."""
    for media in _video_media(file, size):
        headers = list(_find(file, *media, (b"mdhd",)))
        if not headers:
            continue
        pairs = np.zeros((0, 2), ">u4")
        for begin, end in _find(file, *media, (*_TO_SAMPLES, b"stts")):
            entries = int.from_bytes(_read(file, begin + 4, 4), "big")
            data = _read(file, begin + 8, min(entries * 8, end - begin - 8, _LARGEST_TABLE))
            pairs = np.frombuffer(data[: len(data) // 8 * 8], ">u4").reshape(-1, 2)
        # Of several boxes of a kind the last one counts, as in FFmpeg.
        yield *_scale_and_duration(_read(file, headers[-1][0], 32)), pairs


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
        for begin, _ in _find(file, *media, (*_TO_SAMPLES, b"stsz")):
            body = _read(file, begin + 4, 8)
            yield int.from_bytes(body[:4], "big"), int.from_bytes(body[4:], "big")


def _video_media(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """The bodies of the media boxes of video tracks."""
    for media in _find(file, 0, size, (b"moov", b"trak", b"mdia")):
        if any(_read(file, begin + 8, 4) == b"vide" for begin, _ in _find(file, *media, (b"hdlr",))):
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
