"""The benchmarks of a reproduction, each with its settings and its size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from videopro.benchmarks import BENCHMARKS, PRESETS, Repository, SplitSize, load, manifest
from videopro.commands.reproduce.settings import given
from videopro.errors import ConfigError, VideoProError


@dataclass(frozen=True)
class Size(SplitSize):
    """How large a benchmark is, here or as published."""

    is_counted: bool = False
    """Whether its questions were counted in local files."""
    unanswered: int = 0
    """Counted questions without an answer."""
    found: int = 0
    """Videos that are there."""

    def asked(self, limit: float | None) -> tuple[float, float]:
        """The questions of a `limit` (a number, or a share below 1), and the hours of their videos: whole
        videos are taken."""
        if limit is None:
            return self.questions, self.hours
        questions = min(self.questions, math.ceil(limit * self.questions if limit < 1 else limit))
        videos = math.ceil(questions * self.videos / self.questions) if questions else 0
        return questions, self.hours * videos / max(self.videos, 1)


@dataclass(frozen=True)
class Part:
    """A benchmark with its split, protocol, and frames per call."""

    name: str
    split: str
    protocol: str
    """Empty: the default."""
    frames: int | None
    data: Path
    """The folder with one subfolder for each benchmark."""

    @property
    def folder(self) -> str:
        """Its subfolder in the data folder and in a run folder."""
        return BENCHMARKS[self.name].name

    @property
    def root(self) -> Path:
        """The folder of its files."""
        return self.data / self.folder

    @property
    def settings(self) -> dict[str, str]:
        """Which questions these are, as settings of commands that take a benchmark."""
        return given(root=str(self.root), split=self.split, protocol=self.protocol)

    @property
    def check(self) -> str:
        """The command that says what of its files is missing or damaged."""
        return f"videopro benchmarks check {self.name} --split {self.split} --root {self.root}"

    @property
    def repositories(self) -> list[Repository]:
        """Those of the hub that have its files."""
        return manifest(self.name).of(self.split)

    @property
    def is_downloaded(self) -> bool:
        """Whether its files are downloaded from the hub rather than put there by hand."""
        is_ours = not self.root.exists() or (self.root / ".cache" / "huggingface").exists()
        return bool(self.repositories) and is_ours

    def size(self) -> Size:
        """Its size: counted in its files, else as published, else 0."""
        published = manifest(self.name).sizes.get(self.split, SplitSize(0, 0, 0.0))
        try:
            items = load(self.name, split=self.split, root=self.root, protocol=self.protocol).items
        except VideoProError:
            return Size(published.questions, published.videos, published.hours)
        videos = {item.video_key: item.video for item in items}
        hours = published.hours * len(videos) / max(published.videos, 1)
        unanswered = sum(item.answer is None and not item.question.is_open for item in items)
        found = sum(video.exists() for video in videos.values())
        return Size(len(items), len(videos), hours, "", True, unanswered, found)


def parts_of(names: Sequence[str], data: Path) -> list[Part]:
    """The benchmarks with these names. A benchmark of a preset uses the preset's settings, also by its own
    name (Video-MME: its long group). Raises ConfigError for a benchmark named twice."""
    benchmarks, frames = PRESETS["videopro"]
    preset = {name: Part(name, split, protocol, frames, data) for name, split, protocol in benchmarks}
    named = [each for name in names for each in (preset if name == "videopro" else [name])]
    parts = [preset.get(name) or Part(name, BENCHMARKS[name].splits[0], "", None, data) for name in named]
    folders = [part.folder for part in parts]
    if twice := [folder for folder in folders if folders.count(folder) > 1]:
        raise ConfigError(f"benchmark {twice[0]!r} is given twice; pass it once")
    return parts
