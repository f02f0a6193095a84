"""A drawn video of 70 s with a script of its own, and questions about it, for the teachers of agents."""

from videopro.pocket.drawing import Actor
from videopro.pocket.questions import PocketQuestion
from videopro.pocket.script import NarrationLine, Scene, Script
from videopro.train.pocket.agents.views import DrawnVideo
from videopro.train.pocket.agents.witness import Witness

BALL = Actor("ball", "red", "slides", 50, 160.0, 96.0, 0.0, 0.1)


def scene(place: str, start: float, end: float, actor: Actor | None = None) -> Scene:
    return Scene(place, "once", start, end, actor, None, 1)


def drawn() -> DrawnVideo:
    """70 s, so that six borders lie at 10, 20, ..., 60 s; the market is shown from 15 to 33 s."""
    video = DrawnVideo(0)
    scenes = (
        scene("beach", 0, 15),
        scene("market", 15, 33, BALL),
        scene("lake", 33, 47),
        scene("beach", 47, 70),
    )
    lines = (NarrationLine(20.5, 23.5, "Anna lost a lamp.", "fact", "Anna", "lost", "lamp"),)
    video.script = Script("short", 0, "sunny", "race", scenes, lines)
    return video


def asked(
    kind: str, text: str, choices: tuple[str, ...], answer: str, *evidence: tuple[float, float]
) -> Witness:
    return Witness(drawn(), PocketQuestion(kind, kind, text, choices, answer, evidence))


COLOR = asked("color", "What color is the ball at the market?", ("blue", "red"), "B", (15, 33))
MOVE = asked("move", "What does the ball do at the market?", ("slides", "jumps"), "A", (15, 33))
AFTER = asked("after", "Which place comes right after the market?", ("lake", "cave"), "A", (15, 47))
FACT = asked("narration", "What does the narrator say that Anna lost?", ("lamp", "key"), "A", (20.5, 23.5))
