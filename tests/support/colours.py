"""Videos of one colour, a benchmark of questions about them, runs over it as on the command line, and a
backbone that sees colours. An option that names the colour is right, so all answers are known by looking.

`make_video` and `make_benchmark` (or the fixture `root`) make the files; `flags`, `start` and `finish` are a
run in a process of its own, `check_complete` reads what it leaves. `ColourBackbone` is a real `Backbone`: it
looks at pixels, so that a frame that went missing or came from another video changes its answers; what it can
be told to do is in `FakeBackbone`. `python -m tests.support.colours ARGS` is `python -m videopro.infer` with
it.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.fake_backbone import FakeBackbone, confident_answer, visual_frames
from videopro.backbones.base import Backbone, ChoiceRequest, GenerateRequest
from videopro.errors import BackboneError
from videopro.question import Answer
from videopro.traces import Trace
from videopro.video import Frame

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}


def make_video(path: Path, colour: str, seconds: float = 2.0) -> None:
    """An H.264 file of one colour, 64x48, 8 frames a second."""
    make_colours(path, [colour] * round(8 * seconds), 8)


def make_colours(path: Path, colours: Sequence[str], rate: int) -> None:
    """One with the colour of each frame."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.options = {"preset": "ultrafast"}
        for colour in colours:
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
        make_video(path, colour)
        if v in broken:
            path.write_bytes(b"this is no video" * 100)
        for q in range(questions):
            choices = names[q % 4 :] + names[: q % 4]
            right = "ABCD"[choices.index(colour)]
            stated = right if q % 3 != 2 else "ABCD"[(choices.index(colour) + 1) % 4]
            gold[f"v{v}q{q}"] = right
            asked: dict[str, Any] = {
                "question": f"Which colour is shown ({q})?",
                "choices": choices,
                "answer": stated,
            }
            groups = {"family": "odd" if q % 2 else "even", "length": "short" if v % 2 else "long"}
            lines.append({"id": f"v{v}q{q}", "video": f"videos/v{v}.mp4", **asked, **groups})
    root.mkdir(exist_ok=True)
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return gold


def colour_of(*frames: Frame) -> str:
    """The colour of a frame, or of several as a whole."""
    return nearest(np.mean([frame.image.mean(axis=(0, 1)) for frame in frames], axis=0))


def nearest(mean: np.ndarray) -> str:
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))


class ColourBackbone(FakeBackbone):
    """Answers with the option that names the frames' colour, with confidence 0.9, and writes it ("(B) green",
    if an option of the prompt says so).

    `log` names a file that gets the prompt of each answer that was computed or written, as one line; `salt`
    is a part of its identity, "pid": each process says that it is another model. There is no model "missing".
    """

    def __init__(self, model: str, frames: int = 4, *, log: str = "", salt: str = "", **given: Any) -> None:
        if model == "missing":
            raise BackboneError("model 'missing' does not exist; give another")
        super().__init__(model, frames, **{"writes": self._read, "logprob": -0.6, **given})
        self._log, self._salt = log, str(os.getpid()) if salt == "pid" else salt

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "frames": self.frames, "salt": self._salt}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return height // 2, width // 2

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        self._note(request.prompt)
        question = request.question
        letter = question.letters[question.choices.index(colour_of(*frames))]
        return confident_answer(letter, 0.9, question.letters, other=0.02, tokens_in=100 + len(frames))

    def _read(self, request: GenerateRequest) -> str:
        self._note(request.text)
        seen = colour_of(*visual_frames(request.visual))
        option = re.search(rf"^\(?([A-J])[.:)] ?{seen}$", request.text, re.MULTILINE)
        return f"({option[1]}) {seen}" if option else f"I read: {request.text}"

    def _note(self, prompt: str | None) -> None:
        if self._log:
            with open(self._log, "a") as file:
                file.write(f"{prompt!r}\n")


def load_fake(model: str, **settings: Any) -> Backbone:
    """Stands for `videopro.backbones.load_backbone`."""
    return ColourBackbone(model, **settings)


# ---- runs ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos with three questions each; the third question of each has a wrong gold answer."""
    folder = tmp_path_factory.mktemp("colours")
    make_benchmark(folder)
    return folder


def flags(root: Path, output: Path, *more: str) -> list[str]:
    return ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output), *more]


def start(
    root: Path, output: Path, *more: str, launcher: Sequence[str] = (), **environment: str
) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    return subprocess.Popen(
        [*launcher, sys.executable, "-m", "tests.support.colours", *flags(root, output, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    out, err = process.communicate(timeout=180)
    assert process.returncode == status, out + err
    return out + err


def lines(output: Path) -> int:
    try:
        return (output / "traces.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def check_complete(output: Path, questions: int = 12) -> list[Trace]:
    """Every question is there exactly once, each line whole."""
    raw = (output / "traces.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    traces = [Trace.from_line(line) for line in raw.splitlines()]
    counts = Counter(trace.question_id for trace in traces)
    assert len(counts) == questions
    assert set(counts.values()) == {1}
    return traces


def rewrite(root: Path, question_id: str, text: str) -> None:
    """Give one question another text."""
    change_questions(root, lambda record: {"question": text} if record["id"] == question_id else {})


def change_questions(root: Path, changes: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Give each question these fields."""
    path = root / "questions.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**record, **changes(record)}) + "\n" for record in records))


SRT = """1
00:00:00,100 --> 00:00:00,300
<i>said early</i>

2
00:00:00,900 --> 00:00:01,100
said in the middle
"""


if __name__ == "__main__":
    # Workers import this module under its own name, so the loader must come from there.
    from tests.support.colours import load_fake as load
    from videopro.commands.infer import main

    sys.exit(main(load=load))
