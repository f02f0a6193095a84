"""Exchanges that teach Deep Video Discovery's text protocol: the next call of a tool, or the answer.

A teacher plays the language model in the method's own run (`DvdRun`), over a database of simulated captions
whose search is the real one, and a simulated VQA model. So each prompt is what the method sends. The teacher
decides by the question, the captions that a search found, and what the VQA model said, right or wrong; it
never asks the script.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from videopro.backbones import Sampling
from videopro.methods.agents import AgentModel, ModelReply, Prepared, Session
from videopro.methods.dvd import (
    CaptionedClip,
    CaptionSearch,
    Database,
    DvdRun,
    DvdSettings,
    SubjectRegistry,
    clip_borders,
    spoken_in,
)
from videopro.pocket.questions import LETTERS, PocketQuestion, generate_questions
from videopro.pocket.vocabulary import COLORS, MOVES, PLACES, SHAPES, TOPICS
from videopro.question import Answer, prompts
from videopro.traces import Cost, Preparation, Segment, Step
from videopro.train.pocket.agents.captions import misread
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import Witness
from videopro.train.pocket.qa_pairs import PocketExample, QAPair, Rng, choose
from videopro.train.pocket.tasks import describe
from videopro.video import Frame, SubtitleLine, Subtitles, Video, fps_times

SETTINGS = DvdSettings(preset="equal", registry="none", text_encoder="none", max_new_tokens=144)
FRAMES = 16
"""Frames a call."""

SHAPE_RIGHT, MOVE_RIGHT, EMPTY_RIGHT, CUT_RIGHT = 0.9, 0.47, 0.65, 0.67
"""How often the shipped model's captions name the right shape and move, say that nothing moves where nothing
does, and name one of the two places where a clip has a cut. Place, colour and weather of a clip without a cut
were always right in the clips that were measured."""
VQA_RIGHT: Mapping[str, float] = {
    "color": 0.88, "shape": 1.0, "move": 0.33, "sign": 0.25, "before": 0.97, "after": 0.97,
    "main_place": 0.96, "count": 0.38,
}  # fmt: skip
"""How often it picks the right option, as the teacher asks, by the kind of question; else 0.5."""

TOP_K: Mapping[str, int] = {"color": 3, "shape": 3, "move": 3, "narration": 3, "story": 6}
"""Clips that a search is asked for; else 1."""
LOOKED_OVER = ("main_place", "count")
"""Kinds for which frames of the whole video are looked at, and no caption is searched."""
LOOKED_AT = ("sign", "before", "after")
"""Kinds that captions do not tell: frames are looked at where the search has found the place."""
AROUND = 10.0
"""Seconds before and after the clip found that are looked at for what comes before or after it."""

_CAPTION = re.compile(r"(?:A (\w+) (\w+) (\w+)|Nothing moves) at the (\w+)\. It is (\w+)\.")
_LINE = re.compile(r'says "([^"]*)"')


# ---- the world as the pocket model sees it ---------------------------------------------------------------


def caption(rng: Rng, video: DrawnVideo, times: Sequence[float]) -> str:
    """What it says of the frames at these times (s)."""
    scenes = list({scene.start: scene for scene in map(video.scene_at, times)}.values())
    scene = scenes[int(rng.integers(len(scenes)))]
    place = scene.place
    if len(scenes) > 1 and rng.random() >= CUT_RIGHT:
        place = choose(rng, PLACES)
    actor = None
    if scene.actor is not None:
        actor = {
            "color": scene.actor.color,
            "shape": misread(rng, scene.actor.shape, SHAPES, SHAPE_RIGHT),
            "move": misread(rng, scene.actor.move, MOVES, MOVE_RIGHT),
        }
    elif rng.random() >= EMPTY_RIGHT:
        actor = {
            "color": choose(rng, tuple(COLORS)),
            "shape": choose(rng, SHAPES),
            "move": choose(rng, MOVES),
        }
    return describe({"actor": actor, "place": place, "weather": video.script.weather})


def clips_of(video: DrawnVideo) -> list[tuple[float, float]]:
    """(start, end) in seconds of the clips that the method makes of a video."""
    return clip_borders(video.duration, SETTINGS, None)


def database_of(rng: Rng, video: DrawnVideo) -> Database:
    """The database that the method would make of a video with the pocket model as captioner."""
    times = [fps_times(start, end, SETTINGS.fps, FRAMES) for start, end in clips_of(video)]
    return captioned(video, [caption(rng, video, each) for each in times])


def captioned(video: DrawnVideo, captions: Sequence[str]) -> Database:
    """The database of a video whose clips have these captions."""
    lines = tuple(SubtitleLine(line.start, line.end, line.text) for line in video.script.lines)
    clips = tuple(
        CaptionedClip(
            clip=number,
            start=start,
            end=end,
            caption=captions[number],
            spoken=spoken_in(Subtitles(lines, "script"), start, end),
            cost=Cost(),
        )
        for number, (start, end) in enumerate(clips_of(video))
    )
    search = CaptionSearch(clips)
    return Database(clips, SubjectRegistry(), search, Preparation("database", "drawn"))


class _Unseen:
    """Stands for the video: the VQA model is simulated, so that no frame is drawn."""

    height, width = 1, 1

    def __init__(self, duration: float) -> None:
        self.duration = duration

    def frames(self, times: Sequence[float], size: tuple[int, int] | None = None) -> list[Frame]:
        return []


@dataclass
class _Simulated(AgentModel):
    """A model in a role that says what `reply` says, and is asked for nothing else."""

    name: str = "simulated"
    frames: int = FRAMES

    def identity(self) -> dict[str, object]:
        return {"kind": self.name}

    def frame_size(self, height: int, width: int, count: int) -> tuple[int, int] | None:
        return None

    def reply(
        self,
        prompt: str,
        frames: Sequence[Frame],
        sampling: Sampling,
        schema: Mapping[str, Any] | None = None,
    ) -> ModelReply:
        return ModelReply(self.say(prompt))

    @abstractmethod
    def say(self, prompt: str) -> str:
        """The reply to a prompt."""

    def choose(self, question: Any, prompt: str, frames: Sequence[Frame]) -> Answer:
        raise NotImplementedError("the teacher answers before the last step")

    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        raise NotImplementedError("no step asks for Yes or No")


@dataclass
class SimulatedVqa(_Simulated):
    """Picks the right option as often as the pocket model does."""

    rng: Rng = field(kw_only=True)
    labelled: PocketQuestion = field(kw_only=True)

    def say(self, prompt: str) -> str:
        letters = LETTERS[: len(self.labelled.choices)]
        return misread(self.rng, self.labelled.answer, letters, VQA_RIGHT.get(self.labelled.kind, 0.5))


# ---- the teacher -----------------------------------------------------------------------------------------


@dataclass
class DvdTeacher(_Simulated):
    """Plays the language model for one question, and notes its exchanges.

    It searches the captions in the question's own words (a line in its own), answers what they tell, and
    shows the VQA model what they do not, as a question with options: in other words that model does not
    answer. The whole video is looked at for what no single clip tells.
    """

    witness: Witness = field(kw_only=True)
    rng: Rng = field(kw_only=True)
    session: Session | None = None
    pairs: list[QAPair] = field(default_factory=list)

    def say(self, prompt: str) -> str:
        steps = [] if self.session is None else self.session.steps
        reply = json.dumps(self.next_call([step for step in steps if step.kind != "act"]))
        self.pairs.append((prompt, reply))
        return reply

    def next_call(self, tools: Sequence[Step]) -> dict[str, Any]:
        """The reply after these calls of tools."""
        kind, question = self.witness.labelled.kind, self.witness.question
        if not tools:
            if kind in LOOKED_OVER:
                return self._inspect(0, int(f"{self.witness.video.duration:.0f}"))
            return _call("clip_search", query=self._query(), top_k=TOP_K.get(kind, 1))
        last = tools[-1]
        if last.kind == "frame_inspect":
            letter = last.raw.strip()
            # The model may name no letter at all.
            return self._answer(letter if letter in question.letters else choose(self.rng, question.letters))
        clips = last.segments
        option = "" if kind in LOOKED_AT else self._stated_option(clips)
        if option:
            return self._answer(option)
        if not clips or kind in ("narration", "story"):
            return self._answer(choose(self.rng, question.letters))
        best = self._naming_the_location(clips) or clips
        start, end = best[0].start, best[0].end
        if kind in ("before", "after"):
            start, end = max(0.0, start - AROUND), end + AROUND
        return self._inspect(start, end)

    def _query(self) -> str:
        line = _LINE.search(self.witness.labelled.text)
        return line[1] if line else self.witness.labelled.text

    def _inspect(self, start: float, end: float) -> dict[str, Any]:
        ranges = [[round(start, 1), round(end, 1)]]
        question = prompts.multiple_choice(self.witness.question)
        return _call("frame_inspect", question=question, time_ranges=ranges)

    def _answer(self, text: str) -> dict[str, Any]:
        # The method reads a letter or an option's text; this model copies a word before it finds its letter.
        return _call("answer", text=text)

    def _naming_the_location(self, clips: Sequence[Segment]) -> list[Segment]:
        """Those of the clips whose captions name the question's place."""
        return [clip for clip in clips if f"at the {self.witness.place}." in clip.text]

    def _stated_option(self, clips: Sequence[Segment]) -> str:
        """The option that the captions tell, most often and first; empty if they tell none."""
        kind, text = self.witness.labelled.kind, self.witness.labelled.text
        values: list[str] = []
        for clip in self._naming_the_location(clips) if self.witness.place else clips:
            seen = _CAPTION.match(clip.text)
            if kind == "story":
                values += [topic for topic in TOPICS if re.search(rf"\b{topic}\b", clip.text)]
            elif kind == "narration":
                values += self._stated_items(clip.text)
            elif seen is not None and kind in ("weather", "spoken"):
                values.append(seen[5] if kind == "weather" else seen[4])
            # A caption of something else at the place does not tell what is asked.
            elif seen is not None and seen[1] and (kind == "shape" or f" {seen[2]}" in text):
                values.append(seen[("color", "shape", "move").index(kind) + 1])
        # A mistaken caption may name what is no option.
        values = [value for value in values if value in self.witness.question.choices]
        return Counter(values).most_common(1)[0][0] if values else ""

    def _stated_items(self, text: str) -> list[str]:
        statements = re.findall(r"\b([A-Z]\w+ \w+) a (\w+)\.", text)
        return [item for deed, item in statements if deed in self.witness.labelled.text]


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


# ---- rows ------------------------------------------------------------------------------------------------


def searched(rng: Rng, witness: Witness, database: Database) -> DvdTeacher:
    """The teacher after the method's run on a question."""
    teacher = DvdTeacher(witness=witness, rng=rng)
    models = {"llm": teacher, "vqa": SimulatedVqa(rng=rng, labelled=witness.labelled)}
    video = cast(Video, _Unseen(witness.video.duration))
    session = Session(witness.question, video, models, SETTINGS)
    teacher.session = session
    DvdRun(session, Prepared(database, (database.preparation,))).run()
    return teacher


def tool_rows(rng: Rng, questions: int = 3) -> list[PocketExample]:
    """A row with the exchanges of a few questions about one random video."""
    video = DrawnVideo(int(rng.integers(1_000_000)))
    database = database_of(rng, video)
    drawn = generate_questions(video.script, draw=int(rng.integers(6)))
    order = rng.permutation(len(drawn))[:questions]
    teachers = [searched(rng, Witness(video, drawn[int(index)]), database) for index in order]
    return [PocketExample([pair for teacher in teachers for pair in teacher.pairs])]
