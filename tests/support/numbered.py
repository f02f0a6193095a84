"""A video whose pictures carry numbers, a backbone that reads them (`seen`), and contexts and libraries made
of both, for tests of the modules: which frames were looked at is then known from how the video was made."""

import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.fake_backbone import FakeBackbone, confident_answer, visual_frames
from tests.support.making_videos import make, read_number
from videopro.backbones.base import YES_NO, Backbone, ChoiceRequest, GenerateRequest
from videopro.modules.library import CallCache, ModuleLibrary, VideoContext
from videopro.question import Answer
from videopro.video import Frame, SubtitleLine, Subtitles, Video

RATE = 4
SECONDS = 60
"""Pictures 0..239, four a second: picture n is shown from n / 4 s."""
CHOICES = ("red", "green", "blue")


@functools.cache
def video() -> Video:
    """One minute of numbered pictures."""
    path = Path(tempfile.mkdtemp()) / "numbered.mp4"
    make(path, RATE * SECONDS, rate=RATE)
    return Video.open(path)


LINES = (
    SubtitleLine(2.0, 4.0, "The old lighthouse stands on the cliff."),
    SubtitleLine(12.0, 14.0, "Anna buys a lantern."),
    SubtitleLine(30.0, 33.0, "The storm breaks the bridge."),
    SubtitleLine(50.0, 52.0, "They repair the lighthouse together."),
)


def subtitles() -> Subtitles:
    return Subtitles(LINES, "test")


class ReadingBackbone(FakeBackbone):
    """Reads the numbers of the frames it is shown (`seen`) and replies by rule.

    A letter: the (first number modulo the number of options)-th. Yes or no: whether the question names a
    number that is shown. Text: `writes(request)`, else the numbers.
    """

    prompt_tokens = 9

    def __init__(self, frames: int = 8, *, name: str = "reading", **settings: Any) -> None:
        super().__init__(name, frames, **{"writes": _numbers_shown, "logprob": -0.3, **settings})

    @property
    def seen(self) -> list[list[int]]:
        """The numbers of each request's frames; -1 for a crop."""
        return [_numbers(frames) for frames in self.shown]

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        letters = request.question.letters
        return confident_answer(letters[_numbers(frames)[0] % len(letters)], 0.8, letters, other=0.05)

    def say(self, text: str, frames: Sequence[Frame]) -> Answer:
        yes = any(str(number) in text.split() for number in _numbers(frames))
        return confident_answer(YES_NO[not yes], 0.7, YES_NO, other=0.2)


def _numbers(frames: Sequence[Frame]) -> list[int]:
    return [read_number(frame.image) if frame.box is None else -1 for frame in frames]


def _numbers_shown(request: GenerateRequest) -> str:
    return " ".join(map(str, _numbers(visual_frames(request.visual))))


class FixedIndex:
    """An index of 10-second clips whose scores are given: query -> one score a clip."""

    def __init__(self, scores: Mapping[str, Sequence[float]]) -> None:
        self.clips = tuple((10.0 * i, 10.0 * i + 10) for i in range(SECONDS // 10))
        self._scores = scores
        self.asked: list[tuple[str, int, float | None, float | None]] = []

    def identity(self) -> object:
        return ["fixed", sorted(self._scores)]

    def search(
        self, query: str, top_k: int, *, start: float | None = None, end: float | None = None
    ) -> list[tuple[int, float]]:
        self.asked.append((query, top_k, start, end))
        inside = [
            (i, score)
            for i, score in enumerate(self._scores.get(query, ()))
            if self.clips[i][0] < (end if end is not None else 1e9) and self.clips[i][1] > (start or 0.0)
        ]
        return sorted(inside, key=lambda pair: -pair[1])[:top_k]


def context(backbone: Backbone | None = None, **models: Any) -> VideoContext:
    """A context of the numbered video; `subtitles` are there unless given as None."""
    models.setdefault("subtitles", subtitles())
    return VideoContext(video(), backbone if backbone is not None else ReadingBackbone(), **models)


def library(backbone: Backbone | None = None, **models: Any) -> ModuleLibrary:
    """A library with a cache of its own."""
    return ModuleLibrary(context(backbone, **models), cache=CallCache())


def noise(height: int = 48, width: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
