"""Videos with sound."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from tests.support.making_videos import numbered

TONE = 440.0


def write_pictures(container: av.container.OutputContainer, stream: av.VideoStream) -> None:
    """Eight seconds of numbered pictures, four a second."""
    for number in range(32):
        picture = av.VideoFrame.from_ndarray(numbered(number), format="rgb24")
        picture.pts, picture.time_base = number, Fraction(1, 4)
        container.mux(stream.encode(picture))
    container.mux(stream.encode())


def with_tone(path: Path, *, starts: tuple[float, ...], seconds: float, rate: int = 44_100) -> Path:
    """A video of 8 s with segments of a stereo tone, each beginning at one of `starts`."""
    with av.open(str(path), "w") as container:
        pictures = container.add_stream("libx264", rate=4)
        pictures.height, pictures.width, pictures.pix_fmt = 64, 128, "yuv420p"
        sound = container.add_stream("pcm_s16le", rate=rate, layout="stereo")
        for start in starts:
            times = np.arange(int(seconds * rate)) / rate
            wave = (12_000 * np.sin(2 * np.pi * TONE * times)).astype(np.int16)
            for at in range(0, len(wave), 1024):
                block = np.repeat(wave[at : at + 1024], 2)[None]
                frame = av.AudioFrame.from_ndarray(block, "s16", "stereo")
                frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
                frame.pts = round(start * rate) + at
                container.mux(sound.encode(frame))
        container.mux(sound.encode())
        write_pictures(container, pictures)
    return path


def with_damaged_sound(path: Path, damaged: range, packets: int = 80) -> Path:
    """A video of 8 s with so many AAC packets (of about 23 ms each), of which those of these numbers are
    damaged."""
    rate = 44_100
    with av.open(str(path), "w") as container:
        pictures = container.add_stream("libx264", rate=4)
        pictures.height, pictures.width, pictures.pix_fmt = 64, 128, "yuv420p"
        sound = container.add_stream("aac", rate=rate, layout="mono")
        written = 0
        for number in range(packets):
            wave = (12_000 * np.sin(2 * np.pi * TONE * np.arange(1024) / rate)).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(wave[None], "s16", "mono")
            frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), number * 1024
            for packet in sound.encode(frame):
                if written in damaged:
                    bad = av.Packet(b"\xff" * packet.size)
                    bad.stream, bad.pts, bad.dts = packet.stream, packet.pts, packet.dts
                    bad.time_base, bad.duration = packet.time_base, packet.duration
                    packet = bad
                container.mux(packet)
                written += 1
        write_pictures(container, pictures)
    return path
