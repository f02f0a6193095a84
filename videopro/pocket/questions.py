"""Generates questions about a pocket script: eleven per video, one of each kind, from nine families; and
their unanswerable twins.

Each question has the intervals that contain its evidence. Options are drawn so that the text alone reveals
nothing: the correct one is uniform over the possible answers, and so is its position among the options.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from videopro.pocket.script import NarrationLine, Scene, Script
from videopro.pocket.vocabulary import (
    COLORS,
    COUNTS,
    FAMILIES,
    LINE_DOES,
    LINE_KINDS,
    LINE_WHO,
    MOVES,
    NAMES,
    PHRASINGS,
    PLACES,
    SHAPES,
    SIGNS,
    THINGS,
    TOPICS,
    WEATHERS,
)
from videopro.question import NO_OPTION

OPTIONS = 4
LETTERS = "ABCDEFGH"

Interval = tuple[float, float]


@dataclass(frozen=True)
class PocketQuestion:
    """A question of the pocket world. `evidence` in seconds from the start of the video."""

    kind: str
    family: str
    text: str
    choices: tuple[str, ...]
    answer: str
    evidence: tuple[Interval, ...]


def generate_questions(script: Script, *, phrasing: str = "usual", draw: int = 0) -> list[PocketQuestion]:
    """The questions of one video, one of each kind; `phrasing` is "usual" or "heldout".

    The world's own questions are draw 0; training uses other draws for further questions about the same
    videos.
    """
    # Another stream than the script's, so that further draws of questions leave the video as it is.
    rng = np.random.default_rng([97, script.seed, len(script.scenes), draw])
    once = [scene for scene in script.scenes if scene.role == "once" and scene.actor is not None]
    signed = [scene for scene in script.scenes if scene.sign is not None]
    # Different scenes if the video has enough of them.
    picks = [once[int(i)] for i in rng.permutation(len(once))]
    color, shape, move = (picks[i % len(picks)] for i in range(3))
    order = picks[int(rng.integers(len(picks)))]
    sign = signed[int(rng.integers(len(signed)))]
    back = bool(rng.random() < 0.5)
    return [
        _question(rng, phrasing, "weather", script.weather, WEATHERS, [(0.0, script.duration)]),
        _main_place(rng, phrasing, script),
        _seen(rng, phrasing, "color", color),
        _seen(rng, phrasing, "shape", shape),
        _seen(rng, phrasing, "move", move),
        _neighbour(rng, phrasing, script, order, back),
        _count(rng, phrasing, script),
        _question(
            rng, phrasing, "sign", sign.sign.word if sign.sign else "", SIGNS, [_span(sign)], place=sign.place
        ),
        _spoken_question(rng, phrasing, script),
        _narration_question(rng, phrasing, script),
        _story(rng, phrasing, script),
    ]


def unanswerable_twin(script: Script, question: PocketQuestion) -> PocketQuestion | None:
    """The same question about a place, a person or a line that the video lacks. It has the same options, of
    which none is right. None for a question that names none of these."""
    # Another stream for each kind, so that no twin depends on which others there are.
    rng = np.random.default_rng([98, script.seed, len(script.scenes), *question.kind.encode()])
    if question.kind == "spoken":
        named, alternatives = r'(?<=").*(?=")', _UNSAID
        present = {line.text for line in script.lines}
    elif question.kind == "narration":
        named, alternatives = rf"\b({'|'.join(NAMES)})\b", NAMES
        present = {line.name for line in script.lines}
    else:
        named, alternatives = rf"\b({'|'.join(PLACES)})\b", PLACES
        # Nor one that is an option: it might seem to be the answer.
        present = {scene.place for scene in script.scenes} | set(question.choices)
    absent = [name for name in alternatives if name not in present]
    if not re.search(named, question.text) or not absent:
        return None
    text = re.sub(named, absent[int(rng.integers(len(absent)))], question.text)
    return replace(question, text=text, answer=NO_OPTION, evidence=())


_UNSAID = tuple(f"The {kind} {who} {does}." for kind in LINE_KINDS for who in LINE_WHO for does in LINE_DOES)


def _span(scene: Scene) -> Interval:
    return scene.start, scene.end


def _question(
    rng: np.random.Generator,
    phrasing: str,
    kind: str,
    answer: str,
    alternatives: Sequence[str],
    evidence: Sequence[Interval],
    **slots: str,
) -> PocketQuestion:
    """A question with one correct option and three drawn from `alternatives`, in random order."""
    forms = PHRASINGS[kind][phrasing]
    text = forms[int(rng.integers(len(forms)))].format(**slots)
    wrong = [o for o in alternatives if o != answer]
    choices = [answer, *(wrong[int(i)] for i in rng.permutation(len(wrong))[: OPTIONS - 1])]
    choices = [choices[int(i)] for i in rng.permutation(OPTIONS)]
    letter = LETTERS[choices.index(answer)]
    return PocketQuestion(kind, FAMILIES[kind], text, tuple(choices), letter, tuple(evidence))


def _seen(rng: np.random.Generator, phrasing: str, kind: str, scene: Scene) -> PocketQuestion:
    """Colour, shape or movement of the one actor of a scene whose place is shown once."""
    assert scene.actor is not None
    answer = {"color": scene.actor.color, "shape": scene.actor.shape, "move": scene.actor.move}[kind]
    alternatives = {"color": tuple(COLORS), "shape": SHAPES, "move": MOVES}[kind]
    slots = {"place": scene.place} if kind == "shape" else {"place": scene.place, "shape": scene.actor.shape}
    return _question(rng, phrasing, kind, answer, alternatives, [_span(scene)], **slots)


def _main_place(rng: np.random.Generator, phrasing: str, script: Script) -> PocketQuestion:
    """Where most of the video takes place; wrong options are other places that it shows, if there are
    enough."""
    seconds: dict[str, float] = {}
    for scene in script.scenes:
        seconds[scene.place] = seconds.get(scene.place, 0.0) + scene.end - scene.start
    home = max(seconds, key=lambda place: seconds[place])
    return _question(rng, phrasing, "main_place", home, tuple(seconds), [(0.0, script.duration)])


def _neighbour(
    rng: np.random.Generator, phrasing: str, script: Script, scene: Scene, back: bool
) -> PocketQuestion:
    """The place right before or after one that is shown once; the place itself is never an option."""
    at = script.scenes.index(scene)
    other = script.scenes[at - 1 if back else at + 1]
    # Both scenes: the cut between them is what shows the order.
    evidence = (min(scene.start, other.start), max(scene.end, other.end))
    alternatives = [place for place in PLACES if place != scene.place]
    kind = "before" if back else "after"
    return _question(rng, phrasing, kind, other.place, alternatives, [evidence], place=scene.place)


def _count(rng: np.random.Generator, phrasing: str, script: Script) -> PocketQuestion:
    """How often a recurring place is visited (in a short video: home)."""
    places = [scene.place for scene in script.scenes if scene.role == "again"]
    place = places[0] if places else next(scene.place for scene in script.scenes if scene.role == "home")
    visits = script.visits(place)
    count = str(len(visits))
    question = _question(rng, phrasing, "count", count, COUNTS, [_span(s) for s in visits], place=place)
    # Counts keep their order: shuffled numbers would be odd options.
    return replace(question, choices=COUNTS, answer=LETTERS[COUNTS.index(count)])


def _spoken_question(rng: np.random.Generator, phrasing: str, script: Script) -> PocketQuestion:
    """Where the video is when a line is said that occurs once."""
    events = [line for line in script.lines if line.kind == "event"]
    line = events[int(rng.integers(len(events)))]
    scene = next(s for s in script.scenes if s.start <= line.start < s.end)
    return _question(rng, phrasing, "spoken", scene.place, PLACES, [(line.start, line.end)], line=line.text)


def _narration_question(rng: np.random.Generator, phrasing: str, script: Script) -> PocketQuestion:
    """A fact that only the narrator states."""
    statements = [line for line in script.lines if line.kind == "fact"]
    statement = statements[int(rng.integers(len(statements)))]
    return _question(
        rng,
        phrasing,
        "narration",
        statement.thing,
        THINGS,
        [_when(statement)],
        name=statement.name,
        deed=statement.deed,
    )


def _story(rng: np.random.Generator, phrasing: str, script: Script) -> PocketQuestion:
    """The narrator's recurring topic; topics mentioned once in passing may be options."""
    evidence = [_when(line) for line in script.lines if line.kind == "topic"]
    return _question(rng, phrasing, "story", script.topic, TOPICS, evidence)


def _when(line: NarrationLine) -> Interval:
    return line.start, line.end
