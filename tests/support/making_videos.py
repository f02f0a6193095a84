"""Small video files with known content, made with PyAV: each picture carries its own number.

For tests only. A picture's number is painted as large black and white tiles, so that it can be read back from
any decoded copy: which picture is shown when is then known from how the file was made, not from another
decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

HEIGHT, WIDTH = 64, 128
_BITS, _TILE = 9, 12


def numbered(number: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """(height, width, 3) uint8: a moving texture, with `number` (below 512) in tiles along the top."""
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack(
        [(x * 2 + number * 3) % 256, (y * 3 + number * 2) % 256, (128 + 100 * np.sin((x + y + number) / 9))],
        -1,
    ).astype(np.uint8)
    left = (number * 5) % (width - 16)
    picture[40:56, left : left + 16] = (250, 40 * (number % 6), 30)
    for bit in range(_BITS):
        picture[:_TILE, bit * _TILE : (bit + 1) * _TILE] = 255 if number >> bit & 1 else 0
    return picture


def read_number(picture: np.ndarray) -> int:
    """The number in a picture of the stored size."""
    tiles = [picture[3 : _TILE - 3, bit * _TILE + 3 : (bit + 1) * _TILE - 3].mean() for bit in range(_BITS)]
    assert all(tile < 80 or tile > 175 for tile in tiles), f"unreadable number: {tiles}"
    return sum(1 << bit for bit, tile in enumerate(tiles) if tile > 128)


def make(
    path: Path,
    times: Sequence[int] | int = 60,
    *,
    rate: int = 24,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    mux: dict[str, str] | None = None,
    form: str | None = None,
    rotation: tuple[Any, ...] | None = None,
    aspect: Fraction | None = None,
    audio: float | None = None,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    pixels: str = "yuv420p",
    planes: Sequence[int] | None = None,
    colours: tuple[int, int] | None = None,
) -> list[float]:
    """Write a file; the seconds at which its pictures 0, 1, 2 ... are shown (before any start offset is taken
    off).

    `times` are in units of 1 / `rate`, or a number of pictures one unit apart. `audio`: seconds at which a
    silent track starts. `planes`: one (Y, U, V) for every pixel instead of numbered pictures; `colours`:
    (matrix, range) as ITU-T H.273 and FFmpeg number them.
    """
    ticks = list(range(times)) if isinstance(times, int) else list(times)
    with av.open(str(path), "w", format=form, options=mux or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width, stream.pix_fmt = *size, pixels
        stream.codec_context.time_base = Fraction(1, rate)
        stream.codec_context.thread_count = 1
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        if colours:
            stream.codec_context.colorspace, stream.codec_context.color_range = colours
        if rotation:
            stream.set_display_rotation(*rotation)
        sound = container.add_stream("aac", rate=16_000, layout="mono") if audio is not None else None
        if sound is not None:
            for block in range(int(16_000 * (ticks[-1] + 1) / rate / 1024)):
                frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
                frame.sample_rate, frame.time_base = 16_000, Fraction(1, 16_000)
                frame.pts = block * 1024 + int(audio * 16_000)
                container.mux(sound.encode(frame))
            container.mux(sound.encode())
        for number, tick in enumerate(ticks):
            if planes is None:
                picture = av.VideoFrame.from_ndarray(numbered(number, *size), format="rgb24")
            else:
                picture = av.VideoFrame(size[1], size[0], pixels)
                for plane, value in zip(picture.planes, planes, strict=True):
                    plane.update(bytes([value]) * plane.buffer_size)
                picture.colorspace, picture.color_range = colours or (2, 0)
            picture.pts, picture.time_base = tick, Fraction(1, rate)
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return [tick / rate for tick in ticks]


def box(data: bytes, kind: bytes) -> int:
    """Where the body of the first MP4 box of that kind begins."""
    at = data.index(kind)
    return at + 4
