"""A small benchmark of real videos, and a backbone whose answers are known in advance, for tests of runs.

The fake backbone is a real `Backbone`: it looks at pixels (the colour of the frames), so that a frame that
went missing or came from another video changes its answers. `python -m tests.support.fakes ARGS` is `python
-m videopro.infer` with this backbone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import av
import numpy as np

from videopro.backbones.base import (
    Answer,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Visual,
)
from videopro.errors import BackboneError
from videopro.video import Frame

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}


def make_video(path: Path, colour: str, seconds: float = 2.0) -> None:
    """An H.264 file of one colour, 64x48, 8 frames a second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.options = {"preset": "ultrafast"}
        for _ in range(round(8 * seconds)):
            image = np.full((48, 64, 3), COLOURS[colour], dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def make_benchmark(
    root: Path, videos: int = 4, questions: int = 3, broken: Sequence[int] = ()
) -> dict[str, str]:
    """A folder with `videos` x `questions` questions about colours; the videos numbered in `broken` are no
    videos.

    Returns the right letter of each question id. Every third question has a wrong gold answer on purpose, so
    that accuracies are neither 0 nor 1.
    """
    names = list(COLOURS)
    gold = {}
    lines = []
    for v in range(videos):
        path = root / "videos" / f"v{v}.mp4"
        colour = names[v % len(names)]
        if v in broken:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"this is no video" * 100)
        else:
            make_video(path, colour)
        for q in range(questions):
            choices = names[q % 4 :] + names[: q % 4]
            right = "ABCD"[choices.index(colour)]
            stated = right if q % 3 != 2 else "ABCD"[(choices.index(colour) + 1) % 4]
            gold[f"v{v}q{q}"] = right
            lines.append(
                {
                    "id": f"v{v}q{q}",
                    "video": f"videos/v{v}.mp4",
                    "question": f"Which colour is shown ({q})?",
                    "choices": choices,
                    "answer": stated,
                    "family": "odd" if q % 2 else "even",
                    "length": "short" if v % 2 else "long",
                }
            )
    root.mkdir(exist_ok=True)
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return gold


class FakePrefix(Prefix):
    """Holds frames."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.frames = tuple(frames)
        self.tokens = len(frames)
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True


class ColourBackbone(Backbone):
    """Answers with the option that names the frames' colour, with confidence 0.9.

    A question's text can make it misbehave: "(kill)" kills the process, "(refuse)" raises BackboneError,
    "(bug)" raises ZeroDivisionError, "(mumble)" replies with no letter. `delay` (s) slows every answer; `log`
    names a file that gets the prompt of each answer that was computed, as one line.
    """

    def __init__(
        self, model: str, *, delay: float = 0.0, log: str = "", gone: bool = False, salt: str = ""
    ) -> None:
        if model == "missing":
            raise BackboneError("model 'missing' does not exist; give another")
        self.name, self.frames = model, 4
        self._delay, self._log, self._gone, self._salt = delay, log, gone, salt

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "frames": self.frames, "salt": self._salt}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return height // 2, width // 2

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: ChoiceRequest) -> Answer:
        text = request.question.text
        if self._gone or "(refuse)" in text:
            raise BackboneError("cannot serve this request")
        if "(kill)" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "(bug)" in text:
            raise ZeroDivisionError("a fault on purpose")
        time.sleep(self._delay)
        if self._log:
            with open(self._log, "a") as file:
                file.write(f"{request.prompt!r}\n")
        frames = request.visual.frames if isinstance(request.visual, FakePrefix) else request.visual or ()
        if "(mumble)" in text or not frames:
            return Answer(None, 0.0, dict.fromkeys(request.question.letters, 0.01), "Hmm", 10, 1)
        mean = np.mean([frame.image.mean(axis=(0, 1)) for frame in frames], axis=0)
        seen = min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))
        letter = request.question.letters[request.question.choices.index(seen)]
        letters = {one: 0.9 if one == letter else 0.02 for one in request.question.letters}
        return Answer(letter, 0.9, letters, letter, 100 + len(frames), 1)

    def yes_no(self, visual: Visual, text: str) -> Answer:
        raise BackboneError("this backbone answers multiple choice only")

    def generate_batch(
        self,
        requests: Sequence[GenerateRequest],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> list[Generation]:
        return [Generation(f"I read: {r.text}", (1, 2), (-0.5, -0.7), "stop", 7) for r in requests]

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Generation:
        raise BackboneError("this backbone answers multiple choice only")

    def prefix(self, frames: Sequence[Frame]) -> Prefix:
        return FakePrefix(frames)

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        pass


def load_fake(model: str, **settings: Any) -> Backbone:
    """Stands for `videopro.backbones.load_backbone`."""
    return ColourBackbone(model, **settings)


if __name__ == "__main__":
    # Workers import this module under its own name, so the loader must come from there.
    from tests.support.fakes import load_fake as load
    from videopro.infer import main

    sys.exit(main(load=load))
