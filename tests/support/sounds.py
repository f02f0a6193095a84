"""Videos with sound, and a speech recognizer whose result follows from the sound alone: a line for each
stretch that is loud."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from tests.support.making_videos import numbered
from videopro.modules.models import Heard, SpeechRecognizer, SpeechSpec, Transcript, transcribe_video
from videopro.modules.models.speech import SAMPLE_RATE
from videopro.video import SubtitleLine, Video

TONE = 440.0
RATE = 44_100


@contextmanager
def _video(path: Path) -> Iterator[av.container.OutputContainer]:
    """Eight seconds of numbered pictures, four a second, which are written after all else."""
    with av.open(str(path), "w") as container:
        pictures = container.add_stream("libx264", rate=4)
        pictures.height, pictures.width, pictures.pix_fmt = 64, 128, "yuv420p"
        yield container
        for number in range(32):
            picture = av.VideoFrame.from_ndarray(numbered(number), format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, 4)
            container.mux(pictures.encode(picture))
        container.mux(pictures.encode())


def _tone(samples: int) -> np.ndarray:
    return (12_000 * np.sin(2 * np.pi * TONE * np.arange(samples) / RATE)).astype(np.int16)


def _sound(wave: np.ndarray, layout: str, at: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(wave[None], "s16", layout)
    frame.sample_rate, frame.time_base, frame.pts = RATE, Fraction(1, RATE), at
    return frame


def with_tone(path: Path, *, starts: tuple[float, ...], seconds: float) -> Path:
    """A video of 8 s with segments of a stereo tone, each beginning at one of `starts`."""
    with _video(path) as container:
        sound = container.add_stream("pcm_s16le", rate=RATE, layout="stereo")
        wave = _tone(int(seconds * RATE))
        for start in starts:
            for at in range(0, len(wave), 1024):
                block = np.repeat(wave[at : at + 1024], 2)
                container.mux(sound.encode(_sound(block, "stereo", round(start * RATE) + at)))
        container.mux(sound.encode())
    return path


def with_damaged_sound(path: Path, damaged: range) -> Path:
    """A video of 8 s with 80 AAC packets of about 23 ms each, of which those of these numbers are damaged."""
    with _video(path) as container:
        sound = container.add_stream("aac", rate=RATE, layout="mono")
        written = 0
        for number in range(80):
            for packet in sound.encode(_sound(_tone(1024), "mono", number * 1024)):
                if written in damaged:
                    bad = av.Packet(b"\xff" * packet.size)
                    bad.stream, bad.pts, bad.dts = packet.stream, packet.pts, packet.dts
                    bad.time_base, bad.duration = packet.time_base, packet.duration
                    packet = bad
                container.mux(packet)
                written += 1
    return path


SPEC = SpeechSpec("whisper", "loudness")


class Loudness(SpeechRecognizer):
    """Its lines say "loud". `heard`: seconds of each piece; `stops_at`: the piece at which it is
    interrupted."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.heard: list[float] = []
        self.languages: list[str | None] = []
        self.stops_at = stops_at

    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        if len(self.heard) == self.stops_at:
            raise KeyboardInterrupt
        self.heard.append(len(sound) / SAMPLE_RATE)
        self.languages.append(language)
        # Hundredths of a second.
        size = SAMPLE_RATE // 100
        level = np.abs(sound[: len(sound) // size * size]).reshape(-1, size).max(axis=1)
        edges = np.flatnonzero(np.diff(np.r_[False, level > 0.05, False].astype(int)))
        lines = tuple(SubtitleLine(a / 100, b / 100, "loud") for a, b in edges.reshape(-1, 2).tolist())
        return Heard(lines, "de")

    def of(self, path: Path, root: Path, *, wait: bool = True) -> Transcript:
        """The transcript of a video."""
        return transcribe_video(Video.open(path), SPEC, lambda: self, root, wait=wait)
