"""A video whose pictures carry numbers, a backbone that reads them, and contexts made of both, for tests of
the modules: which frames were looked at is then known from how the video was made."""

from __future__ import annotations

import functools
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.making_videos import make, read_number
from videopro.backbones.base import (
    YES_NO,
    Answer,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Visual,
)
from videopro.errors import BackboneError
from videopro.modules.library import CallCache, ModuleLibrary, VideoContext
from videopro.video import SubtitleLine, Subtitles, Video

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


class ReadingBackbone(Backbone):
    """Reads the numbers of the frames it is shown (`seen`, one list a request) and replies by rule.

    A letter: the (first number modulo the number of options)-th. Yes or no: whether the question names a
    number that is shown. Words: `writes(numbers, text)`. A text with "(refuse)" raises BackboneError.
    """

    def __init__(
        self,
        frames: int = 8,
        *,
        writes: Callable[[list[int], str], str] = lambda numbers, text: " ".join(map(str, numbers)),
        delay: float = 0.0,
    ) -> None:
        self.name, self.frames = "reading", frames
        self.seen: list[list[int]] = []
        self.prompts: list[str] = []
        self.batches: list[int] = []
        self.adapted = True
        self.adapter_states: list[bool] = []
        self._writes, self._delay = writes, delay
        self._busy = threading.Lock()

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "adapter": self.adapted}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return None

    def _look(self, visual: Visual, text: str) -> list[int]:
        if "(refuse)" in text:
            raise BackboneError("cannot serve this request")
        assert not isinstance(visual, Prefix)
        numbers = [read_number(frame.image) if frame.box is None else -1 for frame in (visual or ())]
        self.seen.append(numbers)
        self.prompts.append(text)
        return numbers

    @contextmanager
    def _served(self, count: int) -> Any:
        assert self._busy.acquire(blocking=False), "two calls at once"
        try:
            time.sleep(self._delay)
            self.batches.append(count)
            self.adapter_states.append(self.adapted)
            yield
        finally:
            self._busy.release()

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        with self._served(len(requests)):
            answers = []
            for request in requests:
                assert request.prompt is not None
                numbers = self._look(request.visual, request.prompt)
                letters = request.question.letters
                if "(mumble)" in request.prompt:
                    answers.append(Answer(None, 0.0, dict.fromkeys(letters, 0.01), "Hmm", 10, 1))
                    continue
                letter = letters[numbers[0] % len(letters)]
                chances = {one: 0.8 if one == letter else 0.05 for one in letters}
                answers.append(Answer(letter, 0.8, chances, letter, 10, 1))
            return answers

    def yes_no(self, visual: Visual, text: str) -> Answer:
        with self._served(1):
            numbers = self._look(visual, text)
            word = YES_NO[not any(str(number) in text.split() for number in numbers)]
            return Answer(word, 0.7, {one: 0.7 if one == word else 0.2 for one in YES_NO}, word, 10, 1)

    def generate_batch(self, requests: Sequence[GenerateRequest], **options: Any) -> list[Generation]:
        with self._served(len(requests)):
            return [
                Generation(
                    self._writes(self._look(r.visual, r.text), r.text), (1, 2), (-0.2, -0.4), "stop", 9
                )
                for r in requests
            ]

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Generation:
        raise BackboneError("no chat here")

    def prefix(self, frames: Any) -> Prefix:
        raise BackboneError("no prefixes here")

    @contextmanager
    def _adapter(self, enabled: bool) -> Any:
        before, self.adapted = self.adapted, enabled
        try:
            yield
        finally:
            self.adapted = before

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return self._adapter(enabled)

    def close(self) -> None:
        pass


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
    """A library with a memory of its own."""
    return ModuleLibrary(context(backbone, **models), memory=CallCache())


def noise(height: int = 48, width: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
