"""A small benchmark of real videos, and a backbone whose answers are known in advance, for tests of runs.

The fake backbone is a real `Backbone`: it looks at pixels (the colour of the frames), so that a frame that
went missing or came from another video changes its answers. `python -m tests.support.fakes ARGS` is `python
-m videopro.infer` with this backbone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.support.fake_backbone import FakeBackbone, confident_answer
from videopro.backbones.base import Backbone, ChoiceRequest, GenerateRequest
from videopro.errors import BackboneError
from videopro.question import Answer
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


class ColourBackbone(FakeBackbone):
    """Answers with the option that names the frames' colour, with confidence 0.9.

    `log` names a file that gets the prompt of each answer that was computed or written, as one line; `salt`
    is a part of its identity. There is no model "missing".
    """

    logprob = -0.6

    def __init__(self, model: str, *, log: str = "", salt: str = "", **settings: Any) -> None:
        if model == "missing":
            raise BackboneError("model 'missing' does not exist; give another")
        super().__init__(model, frames=4, **settings)
        self._log, self._salt = log, salt

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "frames": self.frames, "salt": self._salt}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return height // 2, width // 2

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        self._note(request.prompt)
        question = request.question
        letter = question.letters[question.choices.index(_colour(frames))]
        return confident_answer(letter, 0.9, question.letters, other=0.02, tokens_in=100 + len(frames))

    def write(self, request: GenerateRequest, frames: Sequence[Frame]) -> str:
        """ "(B) green", if an option of the prompt says so."""
        self._note(request.text)
        seen = _colour(frames)
        option = re.search(rf"^\(?([A-J])[.:)] ?{seen}$", request.text, re.MULTILINE)
        return f"({option[1]}) {seen}" if option else f"I read: {request.text}"

    def _note(self, prompt: str | None) -> None:
        if self._log:
            with open(self._log, "a") as file:
                file.write(f"{prompt!r}\n")


def _colour(frames: Sequence[Frame]) -> str:
    mean = np.mean([frame.image.mean(axis=(0, 1)) for frame in frames], axis=0)
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))


def load_fake(model: str, **settings: Any) -> Backbone:
    """Stands for `videopro.backbones.load_backbone`."""
    return ColourBackbone(model, **settings)


if __name__ == "__main__":
    # Workers import this module under its own name, so the loader must come from there.
    from tests.support.fakes import load_fake as load
    from videopro.commands.infer import main

    sys.exit(main(load=load))
