"""A minute of coloured scenes, a backbone that sees colours, and planners that write what they are told, for
tests of planning and reasoning: which answer is right, and how sure, is then known from how the video was
made."""

from __future__ import annotations

import functools
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.support.fakes import COLOURS, FakePrefix
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
from videopro.modules.library import VideoContext
from videopro.modules.models.ocr import Ocr, TextRegion
from videopro.planners import Planner, PlannerReply, PlanRequest
from videopro.question import Question
from videopro.video import Frame, SubtitleLine, Subtitles, Video

SCENES = ("grey", "red", "grey", "blue", "grey", "green")
"""The colour of each ten seconds."""
QUESTION = Question("What is shown at the red place?", ("blue", "red", "green", "grey"))


@functools.cache
def video() -> Video:
    """The minute, two frames a second, 64x48."""
    path = Path(tempfile.mkdtemp()) / "scenes.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=2)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.options = {"preset": "ultrafast"}
        for colour in SCENES:
            for _ in range(20):
                image = np.full((48, 64, 3), COLOURS[colour], dtype=np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return Video.open(path)


def colour_of(frame: Frame) -> str:
    mean = frame.image.mean(axis=(0, 1))
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))


class SceneBackbone(Backbone):
    """Answers with the colour that most frames have; how sure it is, is the share of frames that have it,
    less a tenth. `writes(request)` is what it writes; a question with "(refuse)" raises BackboneError.
    """

    name = "scenes"
    frames = 12

    def __init__(self, writes: Callable[[GenerateRequest], str] = lambda request: "grey") -> None:
        self.adapted = True
        self.asked: list[tuple[str, bool]] = []
        """The text of each request, and whether the adapter was on."""
        self.written: list[tuple[GenerateRequest, int, bool]] = []
        """Each request to write, its number of frames, and whether the adapter was on."""
        self.prefixes = 0
        self._switching = threading.RLock()
        self._writes = writes

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "adapter": "lora" if self.adapted else None}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return None

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: ChoiceRequest) -> Answer:
        question = request.question
        if "(refuse)" in question.text:
            raise BackboneError("cannot serve this request")
        self.asked.append((request.prompt or "", self.adapted))
        seen = [colour_of(frame) for frame in _frames(request.visual)]
        most = max(sorted(set(seen)), key=seen.count)
        letter = next((le for le in question.letters if question.choice(le) == most), None)
        sure = seen.count(most) / len(seen) - 0.1
        letters = {one: sure if one == letter else 0.01 for one in question.letters}
        return Answer(letter, sure if letter else 0.0, letters, letter or "Hm", 100 + len(seen), 1)

    def yes_no(self, visual: Visual, text: str) -> Answer:
        self.asked.append((text, self.adapted))
        yes = all(colour_of(frame) in text for frame in _frames(visual))
        word = YES_NO[not yes]
        return Answer(word, 0.8, {one: 0.8 if one == word else 0.1 for one in YES_NO}, word, 50, 1)

    def generate_batch(
        self,
        requests: Sequence[GenerateRequest],
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> list[Generation]:
        replies = []
        for request in requests:
            if "(refuse to write)" in request.text:
                raise BackboneError("cannot write this")
            self.written.append((request, len(_frames(request.visual)), self.adapted))
            text = self._writes(request)
            finish = "length" if len(text.split()) > max_new_tokens else "stop"
            replies.append(Generation(text, tuple(range(len(text.split()))), (-0.1,), finish, 200))  # type: ignore[arg-type]
        return replies

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Generation:
        raise BackboneError("no chat here")

    def prefix(self, frames: Sequence[Frame]) -> Prefix:
        self.prefixes += 1
        return FakePrefix(frames)

    @contextmanager
    def _switched(self, enabled: bool) -> Any:
        # As QwenBackbone's: other threads wait until the block ends, so a block around a call that waits for
        # them is a deadlock here too.
        if not self._switching.acquire(timeout=20):
            raise AssertionError("an adapter block keeps this thread waiting for ever")
        before, self.adapted = self.adapted, enabled
        try:
            yield
        finally:
            self.adapted = before
            self._switching.release()

    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        return self._switched(enabled)

    def close(self) -> None:
        pass


def _frames(visual: Visual) -> Sequence[Frame]:
    return visual.frames if isinstance(visual, Prefix) else (visual or ())


class SceneIndex:
    """Ten-second clips; a query finds those whose colour it names best."""

    clips = tuple((10.0 * i, 10.0 * i + 10) for i in range(len(SCENES)))

    def identity(self) -> object:
        return "scenes"

    def search(
        self, query: str, top_k: int, *, start: float | None = None, end: float | None = None
    ) -> list[tuple[int, float]]:
        scored = [(i, 1.0 if colour in query else 0.1) for i, colour in enumerate(SCENES)]
        return sorted(scored, key=lambda pair: -pair[1])[:top_k]


class ColourOcr(Ocr):
    """Reads the colour."""

    def identity(self) -> object:
        return "colours"

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        word = min(COLOURS, key=lambda name: float(np.abs(image.mean(axis=(0, 1)) - COLOURS[name]).sum()))
        return [TextRegion(word.upper(), (0.0, 0.0, 1.0, 1.0), 0.9)]


LINES = (
    SubtitleLine(12.0, 15.0, "The old king laughs."),
    SubtitleLine(22.0, 25.0, "Anna hid a lamp."),
    SubtitleLine(34.0, 37.0, "Everybody talks about the wedding."),
)


def context(backbone: Backbone | None = None, **models: Any) -> VideoContext:
    """A context of the minute with everything that a program may need."""
    from videopro.modules.models.detection import BackboneDetector

    answers = backbone if backbone is not None else SceneBackbone()
    given: dict[str, Any] = {
        "subtitles": Subtitles(LINES, "test"),
        "index": SceneIndex(),
        "ocr": ColourOcr(),
        "detector": BackboneDetector(answers),
        **models,
    }
    return VideoContext(video(), answers, **given)


class ScriptedPlanner(Planner):
    """Writes what `writes(request)` says, and keeps the requests."""

    name = "scripted"
    sees_video = True

    def __init__(self, writes: Callable[[PlanRequest], str], *, is_fine_tuned: bool = True) -> None:
        self.requests: list[PlanRequest] = []
        self.is_fine_tuned = is_fine_tuned
        self._writes = writes

    def identity(self) -> dict[str, object]:
        return {"planner": self.name}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        self.requests += requests
        replies = []
        for request in requests:
            if "(no plan)" in request.question.text:
                raise BackboneError("the planner is gone")
            replies.append(PlannerReply(self._writes(request), 300, 40, 1))
        return replies


def reply(body: str, planning: str = "A plan.") -> str:
    """A well-formed reply with this body of execute_command."""
    code = "\n".join(f"    {line}" for line in body.strip().split("\n"))
    head = "def execute_command(video, question):"
    return f"<planning>\n{planning}\n</planning>\n<code>\n{head}\n{code}\n</code>"


NATIVE = reply("return query_native(video, question, choices)")
"""Whole video: half of it is grey, so the answer is grey (D) with 0.4."""
LOCAL = reply(
    """intervals, clips = get_informative_clips(video, "red", top_k=1)
return query_mc(extract_frames(clips[0]), question, choices)"""
)
"""The red scene: B with 0.9."""
BROKEN = reply("return query_mc(clips, question, choices)")
"""NameError."""
NOTHING = reply("extract_frames(video)\nreturn None")
