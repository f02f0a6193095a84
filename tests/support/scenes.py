"""A minute of coloured scenes, a backbone that sees how many frames have a colour, and planners that write
what a test gives: which answer is right, and how confident, is then known from how the video was made.

`context` and `item` are what a method answers, `video_context` what its programs run in; `SceneBackbone`
answers, `ScriptedPlanner` plans. NATIVE, LOCAL, BROKEN and NOTHING are replies whose outcome is known;
`reply` makes others.
"""

import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.colours import colour_of, make_colours, nearest
from tests.support.fake_backbone import FakeBackbone, confident_answer, unparsed
from videopro.backbones.base import YES_NO, Backbone, ChoiceRequest, GenerateRequest
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item, Protocol
from videopro.benchmarks.base import ROBUST
from videopro.errors import BackboneError
from videopro.methods import MethodContext
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.modules.library import VideoContext
from videopro.modules.models import Ocr
from videopro.modules.models.ocr import TextRegion
from videopro.question import Answer, Question
from videopro.video import Frame, SubtitleLine, Subtitles, Video

SCENES = ("grey", "red", "grey", "blue", "grey", "green")
"""The colour of each ten seconds."""
QUESTION = Question("What is shown at the red place?", ("blue", "red", "green", "grey"))


@functools.cache
def video(scenes: tuple[str, ...] = SCENES) -> Video:
    """The minute, or one of other colours, two frames a second, 64x48."""
    path = Path(tempfile.mkdtemp()) / "scenes.mp4"
    make_colours(path, [colour for colour in scenes for _ in range(20)], 2)
    return Video.open(path)


class SceneBackbone(FakeBackbone):
    """Answers with the colour that most frames have; its confidence is the share of frames that have it,
    less a tenth. `writes(request)` is what it writes."""

    def __init__(
        self, writes: Callable[[GenerateRequest], str] = lambda request: "grey", **settings: Any
    ) -> None:
        super().__init__("scenes", frames=12, writes=writes, **settings)

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        question = request.question
        seen = [colour_of(frame) for frame in frames]
        most = max(sorted(set(seen)), key=seen.count)
        letter = next((le for le in question.letters if question.choice(le) == most), None)
        if letter is None:
            return unparsed(question.letters)
        sure = seen.count(most) / len(seen) - 0.1
        return confident_answer(letter, sure, question.letters, tokens_in=100 + len(seen))

    def say(self, text: str, frames: Sequence[Frame]) -> Answer:
        yes = all(colour_of(frame) in text for frame in frames)
        return confident_answer(YES_NO[not yes], 0.8, YES_NO, other=0.1, tokens_in=50)


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
        return [TextRegion(nearest(image.mean(axis=(0, 1))).upper(), (0.0, 0.0, 1.0, 1.0), 0.9)]


LINES = (
    SubtitleLine(12.0, 15.0, "The old king laughs."),
    SubtitleLine(22.0, 25.0, "Anna hid a lamp."),
    SubtitleLine(34.0, 37.0, "Everybody talks about the wedding."),
)


def video_context(
    backbone: Backbone | None = None, scenes: tuple[str, ...] = SCENES, **models: Any
) -> VideoContext:
    """A context of the minute, or of one of other colours, with everything that a program may need."""
    from videopro.modules.models.detection import BackboneDetector

    answers = backbone if backbone is not None else SceneBackbone()
    given: dict[str, Any] = {
        "subtitles": Subtitles(LINES, "test"),
        "index": SceneIndex(),
        "ocr": ColourOcr(),
        "detector": BackboneDetector(answers),
        **models,
    }
    return VideoContext(video(scenes), answers, **given)


NO_MODELS = ("encoder=none", "text_encoder=none", "ocr=none", "detector=none", "tracker=none")
OPTIONS: dict[str, Any] = dict.fromkeys((option.split("=")[0] for option in NO_MODELS), "none")


def item(**changes: Any) -> Item:
    """The question about the red place."""
    return replace(Item("q1", Path("unused.mp4"), "v", QUESTION, answer="B"), **changes)


def context(backbone: SceneBackbone, **options: Any) -> MethodContext:
    """In which a method answers it."""
    return MethodContext(video(), backbone, Protocol(parser=ROBUST), meter=Meter(), **options)


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


def written(code: str) -> str:
    """A well-formed reply with this program."""
    return f"<planning>\nA plan.\n</planning>\n<code>\n{code}\n</code>"


def reply(*body: str) -> str:
    """One whose execute_command has these lines."""
    lines = "\n".join(body).strip().split("\n")
    return written("\n    ".join(["def execute_command(video, question):", *lines]))


NATIVE = reply("return query_native(video, question, choices)")
"""Whole video: half of it is grey, so the answer is grey (D) with 0.4."""
LOCAL = reply(
    'intervals, clips = get_informative_clips(video, "red", top_k=1)',
    "return query_mc(extract_frames(clips[0]), question, choices)",
)
"""The red scene: B with 0.9."""
BROKEN = reply("return query_mc(clips, question, choices)")
"""NameError."""
NOTHING = reply("extract_frames(video)\nreturn None")
