"""The videos: drawn by the pocket world's generator from a seed that no split has, with their narration read
aloud."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from perf.transcripts import read_aloud
from videopro.benchmarks import Item, load
from videopro.video import load_subtitles

SEED = 41


@dataclass(frozen=True)
class DrawnVideo:
    """A video with the questions about it."""

    name: str
    """As the generator has it: short_000."""
    file: Path
    subtitles: Path
    seconds: float
    items: tuple[Item, ...]


def make_videos(names: Sequence[str], folder: Path) -> dict[str, DrawnVideo]:
    """The videos of these names, by name; those that are in the folder are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    world = load("pocket", split="fresh", world_seed=SEED)
    items = {name: tuple(item for item in world.items if item.video.stem == name) for name in names}
    assert world.fetch is not None
    world.fetch([item for each in items.values() for item in each])
    videos = {}
    for name, about in items.items():
        drawn, file = about[0].video, folder / f"{name}.mp4"
        if not file.exists():
            part = file.with_suffix(".part.mp4")
            _add_speech(drawn, drawn.with_suffix(".srt"), part)
            shutil.copy(drawn.with_suffix(".srt"), file.with_suffix(".srt"))
            part.rename(file)
        with av.open(str(file)) as container:
            seconds = container.duration / 1e6
        videos[name] = DrawnVideo(name, file, file.with_suffix(".srt"), seconds, about)
    return videos


def _add_speech(video: Path, subtitles: Path, target: Path) -> None:
    """Write the video with each line of its subtitles read aloud from the line's time on."""
    lines = load_subtitles(subtitles).lines
    sounds, rate = read_aloud([line.text for line in lines])
    with av.open(str(video)) as source, av.open(str(target), "w", format="mp4") as container:
        pictures = source.streams.video[0]
        copied = container.add_stream_from_template(pictures)
        track = container.add_stream("aac", rate=rate, layout="mono")
        samples = np.zeros(int(source.duration / 1e6 * rate) + rate, dtype=np.int16)
        for line, sound in zip(lines, sounds, strict=True):
            start = round(line.start * rate)
            room = samples[start : start + len(sound)]
            room += sound[: len(room)]
        for packet in source.demux(pictures):
            if packet.dts is not None:
                packet.stream = copied
                container.mux(packet)
        for start in range(0, len(samples) - rate, 1024):
            frame = av.AudioFrame.from_ndarray(samples[None, start : start + 1024], "s16", "mono")
            frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), start
            container.mux(track.encode(frame))
        container.mux(track.encode())
