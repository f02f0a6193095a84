"""Stories as scripts, and questions about them, one of each kind.

A story is a long pocket script with six signs at places that are shown once, an actor in every scene, five
topics mentioned once each, and facts that share names and deeds: counting what is mentioned solves none of
its questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from videopro.pocket.script import NarrationLine, Scene, Script, make_actor, make_script, make_sign
from videopro.pocket.vocabulary import (
    COLORS,
    COUNTS,
    DEEDS,
    MOVES,
    NAMES,
    PHRASINGS,
    SHAPES,
    SIGNS,
    THINGS,
    TOPICS,
    WEATHERS,
)
from videopro.question import LETTERS, Question

Interval = tuple[float, float]
_NEW_PHRASINGS: Mapping[str, tuple[str, ...]] = {
    "topic": (
        "Which topic comes up at the {place}?",
        "What does the narrator talk about at the {place}?",
        "At the {place} a topic comes up. Which one?",
    ),
    "sign_place": (
        "Where is the sign {sign}?",
        "At which place is the sign {sign}?",
        "Which place has the sign {sign}?",
    ),
    "first": (
        "Where does the video begin?",
        "Which place is shown first in the video?",
        "At which place does the video begin?",
    ),
    "last": (
        "Where does the video end?",
        "Which place is shown last in the video?",
        "At which place does the video end?",
    ),
    "earliest": (
        "Which of these places is shown before the others?",
        "Which of these places do we see the earliest?",
        "Of these places, which is shown the earliest?",
    ),
}
PHRASES: Mapping[str, tuple[str, ...]] = {
    **{kind: forms["usual"] for kind, forms in PHRASINGS.items() if kind != "story"},
    **_NEW_PHRASINGS,
}
"""Ways of asking, by kind."""
KINDS = tuple(PHRASES)
"""The kinds of questions."""
_FACTS, _TOPICS, _SIGNS = 4, 5, 6


@dataclass(frozen=True)
class Asked:
    """A question about a story, with what its script knows."""

    kind: str
    question: Question
    answer: str
    """The letter of the right option."""
    evidence: tuple[Interval, ...]
    """Intervals (s): one of them must be seen for an answer, and all for `count`."""
    slot: str = ""
    """What the question names: a place, a line, the word of a sign, or a name and a deed."""
    said: str = ""
    """The line that has the answer, where only the narrator gives it."""


@dataclass(frozen=True)
class Story:
    """A script under a name, and its questions."""

    name: str
    script: Script
    questions: tuple[Asked, ...]

    @cached_property
    def by_text(self) -> Mapping[str, Asked]:
        """The questions by their text."""
        return {asked.question.text: asked for asked in self.questions}

    def scene_at(self, time: float) -> Scene:
        """The scene on screen at `time` seconds; the last one after the end."""
        return next((scene for scene in self.script.scenes if time < scene.end), self.script.scenes[-1])


WORLDS = ("train", "val", "test")
"""They share no story."""


# The oracle asks for the same hundred for each channel, and all tests of a world for the same stories.
@lru_cache(256)
def make_story(world: str, number: int) -> Story:
    """The story of a number, below 10^8, in a world. Raises ValueError for another number."""
    if not 0 <= number < 10**8:
        raise ValueError(f"{number} is the number of a story in another world; seeds go from 0 to 9")
    seed = 10**8 * WORLDS.index(world) + number
    rng = np.random.default_rng([1958, seed])
    script = make_script("long", seed)
    # At places that are shown once, whose scenes are alike: how long a sign is shown tells nothing.
    once = [at for at, scene in enumerate(script.scenes) if scene.role == "once"]
    signed = dict(zip(rng.choice(once, _SIGNS, replace=False).tolist(), rng.permutation(SIGNS), strict=False))
    scenes = tuple(
        replace(
            scene,
            actor=scene.actor or make_actor(rng),
            sign=make_sign(rng, str(signed[at])) if at in signed else None,
        )
        for at, scene in enumerate(script.scenes)
    )
    script = replace(script, scenes=scenes)
    script = replace(script, lines=_narrate(rng, script))
    return Story(f"{world}/{number}", script, _questions(rng, script))


def _once(script: Script) -> list[Scene]:
    return [scene for scene in script.scenes if scene.role == "once"]


def _narrate(rng: np.random.Generator, script: Script) -> tuple[NarrationLine, ...]:
    """The lines with new facts and topics: two names by two deeds, each pair with another thing, and each
    topic once, one of them at a place that is shown once."""
    lines = [
        replace(line, text=f"Time passes, {number}.", kind="filler", name="", deed="", thing="")
        if line.kind != "event"
        else line
        for number, line in enumerate(script.lines)
    ]
    free = [int(at) for at in rng.permutation([at for at, line in enumerate(lines) if line.kind == "filler"])]
    at_once = {scene.start for scene in _once(script)}

    def is_at_once(at: int) -> bool:
        return any(
            scene.start <= lines[at].start < scene.end and scene.start in at_once for scene in script.scenes
        )

    # So that the narrator's topic at a place can be asked for in most stories.
    free.sort(key=is_at_once)
    topics = rng.permutation(TOPICS)[:_TOPICS]
    scenes_used: set[float] = set()
    for topic in topics:
        while free:
            at = free.pop()
            scene = next(each for each in script.scenes if each.start <= lines[at].start < each.end)
            if scene.start not in scenes_used:
                scenes_used.add(scene.start)
                lines[at] = replace(
                    lines[at], text=f"Everybody talks about the {topic}.", kind="topic", thing=str(topic)
                )
                break
    names, deeds = rng.permutation(NAMES)[:2], rng.permutation(DEEDS)[:2]
    things = rng.permutation(THINGS)
    pairs = [(str(name), str(deed)) for name in names for deed in deeds]
    for (name, deed), thing in zip(pairs, things, strict=False):
        if free:
            text = f"{name} {deed} a {thing}."
            at = free.pop()
            lines[at] = replace(lines[at], text=text, kind="fact", name=name, deed=deed, thing=str(thing))
    return tuple(lines)


def _questions(rng: np.random.Generator, script: Script) -> tuple[Asked, ...]:
    """One question of each kind that the script allows."""
    scenes, lines = script.scenes, script.lines
    shown = tuple(dict.fromkeys(scene.place for scene in scenes))
    made: list[Asked] = []

    def pick(some: Sequence[Scene]) -> Scene:
        return some[int(rng.integers(len(some)))]

    def add(
        kind: str,
        answer: str,
        pool: Sequence[str],
        evidence: Sequence[Interval],
        slot: str = "",
        said: str = "",
        trap: str = "",
        **words: str,
    ) -> None:
        wrong = [str(each) for each in rng.permutation([each for each in pool if each != answer])]
        # A stable sort: the trap is an option wherever it is not the answer.
        wrong = sorted(wrong, key=lambda option: option != trap)[:3]
        options = tuple(str(each) for each in rng.permutation([answer, *wrong]))
        form = PHRASES[kind][int(rng.integers(len(PHRASES[kind])))]
        question = Question(form.format(**words), options)
        letter = LETTERS[options.index(answer)]
        made.append(Asked(kind, question, letter, tuple(evidence), slot, said))

    def span(scene: Scene) -> Interval:
        return scene.start, scene.end

    whole = [(0.0, script.duration)]
    add("weather", script.weather, WEATHERS, whole)
    seconds = {place: sum(s.end - s.start for s in script.visits(place)) for place in shown}
    home = max(seconds, key=seconds.__getitem__)
    add("main_place", home, shown, whole)
    for kind, pool in (("color", tuple(COLORS)), ("shape", SHAPES), ("move", MOVES)):
        scene = pick(_once(script))
        assert scene.actor is not None
        answer = str(getattr(scene.actor, kind))
        words = {"place": scene.place, "shape": scene.actor.shape}
        add(kind, answer, pool, [span(scene)], scene.place, **words)
    for kind, step in (("before", -1), ("after", 1)):
        # Most places shown once lie between two visits of the main one; three in four questions are about
        # others.
        beside = {s.place: scenes[scenes.index(s) + step] for s in _once(script)}
        elsewhere = [s for s in _once(script) if beside[s.place].place != home]
        scene = pick(elsewhere if elsewhere and rng.random() < 0.75 else _once(script))
        other = beside[scene.place]
        others = [place for place in shown if place != scene.place]
        add(kind, other.place, others, [span(other)], scene.place, trap=home, place=scene.place)
    counted = next((s.place for s in scenes if s.role == "again"), "")
    visits = script.visits(counted)
    if str(len(visits)) in COUNTS:
        add("count", str(len(visits)), COUNTS, [span(each) for each in visits], counted, place=counted)
    signed = [scene for scene in scenes if scene.sign is not None]
    words_shown = [scene.sign.word for scene in scenes if scene.sign is not None]
    once = [scene.place for scene in _once(script)]
    for kind in ("sign", "sign_place"):
        scene = pick(signed)
        assert scene.sign is not None
        place, word = scene.place, scene.sign.word
        if kind == "sign":
            add(kind, word, words_shown, [span(scene)], place, place=place)
        else:
            add(kind, place, once, [span(scene)], word, sign=word)
    at = {line: next(s.place for s in scenes if s.start <= line.start < s.end) for line in lines}
    events = [line for line in lines if line.kind == "event" and at[line] in once]
    if events:
        line = events[int(rng.integers(len(events)))]
        add("spoken", at[line], once, [(line.start, line.end)], line.text, line=line.text)
    facts = [line for line in lines if line.kind == "fact"]
    if len(facts) == _FACTS:
        line = facts[int(rng.integers(len(facts)))]
        things = [each.thing for each in facts]
        slot, told = f"{line.name} {line.deed}", [(line.start, line.end)]
        add("narration", line.thing, things, told, slot, line.text, name=line.name, deed=line.deed)
    topics = [line for line in lines if line.kind == "topic"]
    placed = [
        (line, scene) for line in topics for scene in _once(script) if scene.start <= line.start < scene.end
    ]
    if placed and len(topics) == _TOPICS:
        line, scene = placed[int(rng.integers(len(placed)))]
        add(
            "topic",
            line.thing,
            [each.thing for each in topics],
            [span(scene)],
            scene.place,
            line.text,
            place=scene.place,
        )
    add("first", scenes[0].place, shown, [span(scenes[0])])
    add("last", scenes[-1].place, shown, [span(scenes[-1])])
    four = [str(each) for each in rng.permutation(once)[:4]]
    earliest = min(four, key=shown.index)
    add("earliest", earliest, four, [span(script.visits(earliest)[0])])
    return tuple(made)
