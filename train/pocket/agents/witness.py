"""What some frames of a video, and the subtitle lines at them, tell about a question.

A witness knows the world's script, and says only what the frames themselves show.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

from videopro.pocket.questions import PocketQuestion
from videopro.pocket.script import NarrationLine, Scene
from videopro.pocket.vocabulary import PLACES
from videopro.question import Question
from videopro.train.pocket.agents.views import DrawnVideo

LOCAL = ("color", "shape", "move", "sign", "before", "after")
"""Kinds of questions about one moment that frames show."""
WHOLE_VIDEO = ("weather", "main_place")
"""Kinds that any frames of the video answer."""
SPOKEN = ("spoken", "narration", "story")
"""Kinds whose answer is in the subtitle lines."""

ANSWER_SEEN, PLACE_SEEN, NOTHING, AGAINST = "shown", "place", "nothing", "against"
"""How far frames support an answer: they show it, they show its place only, neither, or they show another."""

_PLACE_NAME = re.compile(rf"\b({'|'.join(PLACES)})\b")


@dataclass(frozen=True)
class Witness:
    """One question about one video."""

    video: DrawnVideo
    labelled: PocketQuestion

    @cached_property
    def question(self) -> Question:
        """The question as a method gets it, without its answer."""
        return Question(self.labelled.text, self.labelled.choices)

    @property
    def answer(self) -> str:
        """The right option."""
        return self.question.choice(self.labelled.answer)

    @cached_property
    def place(self) -> str:
        """The place that the question names; empty if it names none."""
        named = _PLACE_NAME.search(self.labelled.text)
        return named[1] if named else ""

    def lines(self, times: Sequence[float]) -> list[str]:
        """The subtitle lines at the frames, as `Subtitles.visible_at` finds them."""
        return [line.text for line in self._spoken(times)]

    def _spoken(self, times: Sequence[float]) -> list[NarrationLine]:
        lines = self.video.script.lines
        return [line for line in lines if any(line.start < time < line.end for time in times)]

    def _scenes(self, times: Sequence[float]) -> list[Scene]:
        return [self.video.scene_at(time) for time in times]

    def testimony(self, times: Sequence[float]) -> tuple[str, str]:
        """What the frames at ascending `times` (s) show of the answer, as a sentence, and the option that
        this is; empty if it is none."""
        kind, scenes = self.labelled.kind, self._scenes(times)
        if kind == "weather":
            return f"It is {self.answer}.", self.answer
        if kind == "main_place":
            ((most, _),) = Counter(scene.place for scene in scenes).most_common(1)
            return f"Most frames show the {most}.", most
        if kind in SPOKEN:
            return "No frame shows it.", ""
        there = [scene for scene in scenes if scene.place == self.place]
        if not there:
            return f"No frame shows the {self.place}.", ""
        if kind == "count":
            visits = str(sum(place == self.place for place, _ in groupby(scene.place for scene in scenes)))
            return f"The {self.place} is shown {visits} times.", visits
        if kind in ("before", "after"):
            pairs = [pair if kind == "after" else pair[::-1] for pair in pairwise(scenes)]
            near = next((b.place for a, b in pairs if a.place == self.place != b.place), "")
            # Frames may miss a short scene between two that they show: then the answer is not among them.
            if near == self.answer:
                return f"The {near} comes right {kind} the {self.place}.", near
            return f"The frames show the {self.place}.", ""
        actor = there[0].actor
        # Signs are too small to be read at the pocket model's size, and one frame shows no movement.
        if kind == "sign" or actor is None or (kind == "move" and len(there) < 3):
            return f"The frames show the {self.place}.", ""
        sentence = f"A {actor.color} {actor.shape} {actor.move} at the {self.place}."
        return sentence, self.answer

    def is_answerable(self, times: Sequence[float]) -> bool:
        """Whether the frames at `times` (s), or the lines at them, give the answer."""
        kind = self.labelled.kind
        if kind == "sign":
            # The sign is too small to be read, but a look at its place shows that it is there.
            return any(scene.place == self.place for scene in self._scenes(times))
        if kind not in SPOKEN:
            return self.testimony(times)[1] == self.answer
        spoken = self._spoken(times)
        if kind == "story":
            return sum(line.kind == "topic" for line in spoken) >= 2
        (start, _), *_ = self.labelled.evidence
        return any(line.start == start for line in spoken)

    def support(self, times: Sequence[float], letter: str | None) -> str:
        """How far the frames at `times` (s) support an answer."""
        sentence, option = self.testimony(times)
        if letter is None or (option and self.question.choice(letter) != option):
            return AGAINST
        if option:
            return ANSWER_SEEN
        return PLACE_SEEN if sentence.startswith("The frames show") else NOTHING
