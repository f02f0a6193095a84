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
from videopro.video.decoding import mp4

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
            return Clocks(mp4.stated_seconds(file, size), _check_tables(path, file, size))
        if kind in ("mpegts", "mpeg"):
            _check_stream(path, file, size, kind == "mpegts")
    return Clocks(container.duration / 1_000_000 if container.duration else None)


def differing(stated: float | None, played: float) -> tuple[str, ...]:
    """A note if the header's duration (s) differs from that of the pictures; empty if they agree."""
    if stated is None or not _apart(stated, played):
        return ()
    return (f"its header says {stated:,.0f} s, and its pictures last for {played:,.0f} s",)


def _apart(stated: float, played: float) -> bool:
    """Whether two durations, in seconds, contradict each other."""
    short, long = sorted((stated, played))
    return long > short * _TIMES_APART and long - short > _APART


# ---- MP4 and QuickTime ------------------------------------------------------------------------------------


def _check_tables(path: Path, file: BinaryIO, size: int) -> tuple[str, ...]:
    fix = "download it again, or rewrite its timestamps (ffmpeg -r RATE -i IN.mp4 OUT.mp4)"
    notes = []
    if mp4.movies(file, size) > 1:
        notes.append("it holds several videos one after another, of which only the first is used")
    for track in mp4.video_clocks(file, size):
        if track.scale == 0:
            raise VideoError(f"{path}: the time scale of its video is 0, so no picture has a time; {fix}")
        if not track.deltas.size:  # in fragments
            continue
        lengths = np.abs(track.deltas.astype(float)) / track.scale
        total, longest = float(lengths @ track.counts), float(lengths.max())
        stated = track.duration / track.scale
        if stated and total > stated and _apart(total, stated):
            raise VideoError(
                f"{path}: its pictures last for {total:,.0f} s (one of them for {longest:,.0f} s), and its "
                f"header says {stated:,.0f} s; {fix}"
            )
        if longest > _LONG and longest > total * _MOST:
            notes.append(f"one picture is shown for {longest:,.0f} of its {total:,.0f} s")
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
                        "as in streams that were joined end to end; rewrite its timestamps: "
                        f"ffmpeg -i {path.name} -c copy OUT.mp4"
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
