"""Small video files with known content, made with PyAV: each picture carries its own number.

For tests only. A picture's number is painted as large black and white tiles, so that it can be read back from
any decoded copy: which picture is shown when is then known from how the file was made, not from another
decoder.
"""

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.stream import Disposition
from av.subtitles.subtitle import SubtitleSet

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
    audio_seconds: float | None = None,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    pixels: str = "yuv420p",
    planes: Sequence[int] | None = None,
    colours: tuple[int, int] | None = None,
) -> list[float]:
    """Write a file; the seconds at which its pictures 0, 1, 2 ... are shown (before any start offset is taken
    off).

    `times` are in units of 1 / `rate`, or a number of pictures one unit apart. `audio`: seconds at which a
    silent track starts, `audio_seconds` its length (None: that of the pictures). `planes`: one (Y, U, V) for
    every pixel instead of numbered pictures; `colours`: (matrix, range) as ITU-T H.273 and FFmpeg number
    them.
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
            seconds = (ticks[-1] + 1) / rate if audio_seconds is None else audio_seconds
            for block in range(int(16_000 * seconds / 1024)):
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


def as_pocket(*videos: Path) -> None:
    """Declare videos to be of the pocket world, as its generator does, for commands that use its models there
    only."""
    for path in videos:
        about = {"video": path.stem, "files": {path.suffix: [path.stat().st_size, ""]}}
        path.with_suffix(".json").write_text(json.dumps(about))


def box(data: bytes, kind: bytes) -> int:
    """Where the body of the first MP4 box of that kind begins."""
    at = data.index(kind)
    return at + 4


ASS_HEAD = (
    "[Script Info]\nScriptType: v4.00+\n\n"
    "[V4+ Styles]\nFormat: Name, Fontname, Fontsize\nStyle: Default,Arial,20\n\n"
    "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
)


def with_subtitles(
    path: Path,
    tracks: list[tuple[str, str, list[tuple[float, float, str]]]],
    start: float = 0.0,
    *,
    titles: Sequence[str] = (),
    flags: Sequence[Disposition] = (),
) -> Path:
    """A 5 s video whose picture begins at `start`, with text tracks (codec, language, cues) from there on.
    `titles` and `flags`: those of the tracks, in their order."""
    with av.open(str(path), "w") as out:
        picture = out.add_stream("libx264", rate=10, options={"preset": "ultrafast"})
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        texts = []
        for (codec, language, cues), title, flag in zip_longest(tracks, titles, flags):
            track = out.add_stream(codec)
            track.metadata["language"] = language
            if title:
                track.metadata["title"] = title
            track.disposition = flag or Disposition(0)
            track.codec_context.subtitle_header = ASS_HEAD.encode()
            track.codec_context.time_base = Fraction(1, 1000)
            texts.append((track, cues))
        for i in range(50):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), i * 5, np.uint8), format="rgb24")
            frame.time_base = Fraction(1, 1000)
            frame.pts = round((start + i / 10) * 1000)
            out.mux(picture.encode(frame))
        out.mux(picture.encode(None))
        for track, cues in texts:
            for begin, end, text in cues:
                length = round((end - begin) * 1000)
                line = SubtitleSet.create(f"0,0,Default,,0,0,0,,{text}".encode(), 0, length, 0)
                packet = track.codec_context.encode_subtitle(line)
                packet.stream = track
                packet.time_base = Fraction(1, 1000)
                packet.pts = packet.dts = round((start + begin) * 1000)
                packet.duration = length
                out.mux(packet)
    return path


def damage(path: Path, numbers: Sequence[int], share: float = 1.0) -> Path:
    """Overwrite this share of packets of a file with zeros, by their number in decoding order; their first
    bytes stay, and so does the container's own structure."""
    with av.open(str(path)) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    data = bytearray(path.read_bytes())
    for number in numbers:
        position, size = packets[number]
        assert position is not None
        kept = max(min(5, size // 2), int(size * (1 - share)))
        data[position + kept : position + size] = bytes(size - kept)
    path.write_bytes(data)
    return path
