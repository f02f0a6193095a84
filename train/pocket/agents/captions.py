"""Captions of drawn videos' frames, as the shipped pocket model would write them, without asking it.

It was asked for captions of 300 single frames of 60 drawn videos, five at random seconds of each. All but one
are of the form of `tasks.describe`. Against the script: the place is right in all 299, and so is whether
something moves; the weather in 289 (97 %). Of the 215 that name a thing, the color is right in 206 (96 %),
the shape in 170 (79 %), and the movement in 85 (40 %), since one frame shows none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from videopro.pocket.drawing import Actor
from videopro.pocket.vocabulary import COLORS, MOVES, SHAPES, WEATHERS
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.qa_pairs import Rng, choose
from videopro.train.pocket.tasks import describe

RIGHT: Mapping[str, float] = {"weather": 0.97, "color": 0.96, "shape": 0.79, "move": 0.40}
"""The share of right words in the pocket model's captions of single frames."""


@dataclass(frozen=True)
class Caption:
    """What a caption says of a frame."""

    time: float
    """Seconds."""
    place: str
    weather: str
    actor: Actor | None

    @property
    def text(self) -> str:
        """The caption, as the pocket model writes it."""
        actor = None if self.actor is None else asdict(self.actor)
        return describe({"actor": actor, "place": self.place, "weather": self.weather})


def drawn_caption(rng: Rng, video: DrawnVideo, time: float) -> Caption:
    """A caption of the frame at `time` (s), with about as many mistakes as the pocket model makes."""
    scene, actor = video.scene_at(time), video.scene_at(time).actor
    if actor is not None:
        actor = replace(
            actor,
            color=misread(rng, actor.color, tuple(COLORS), RIGHT["color"]),
            shape=misread(rng, actor.shape, SHAPES, RIGHT["shape"]),
            move=misread(rng, actor.move, MOVES, RIGHT["move"]),
        )
    weather = misread(rng, video.script.weather, WEATHERS, RIGHT["weather"])
    return Caption(time, scene.place, weather, actor)


def misread(rng: Rng, word: str, vocabulary: Sequence[str], right: float) -> str:
    """The word, as often as in a share `right` of all cases, else another one of `vocabulary`."""
    if rng.random() < right:
        return word
    return choose(rng, [other for other in vocabulary if other != word])
