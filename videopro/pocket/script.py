"""Writes the script of one pocket video: its scenes, who is in them, and what the narrator says when.

A script is a pure function of (length, seed). Only the generator reads it, to draw the frames and write the
narration and the questions; models and modules get pixels and subtitles.
"""

from dataclasses import dataclass

import numpy as np

from videopro.pocket.drawing import FPS, HEIGHT, WIDTH, Actor, Sign, sign_board
from videopro.pocket.vocabulary import (
    ASIDE_LINES,
    COLORS,
    DEEDS,
    FACT_LINES,
    FILLER_LINES,
    LINE_DOES,
    LINE_KINDS,
    LINE_WHO,
    MOVES,
    NAMES,
    PLACES,
    SHAPES,
    SIGNS,
    THINGS,
    TOPIC_LINES,
    TOPICS,
    WEATHERS,
)

LENGTHS = ("short", "medium", "long")
# Minimum and maximum duration in seconds of a video of each length; the paper's bins are under 2, 2 to 15,
# and over 15 minutes.
SECONDS = {"short": (64, 108), "medium": (170, 640), "long": (930, 1080)}

LINE_SECONDS = 3.0


@dataclass(frozen=True)
class Scene:
    """One scene: from `start` to `end` (s), cut at a frame."""

    place: str
    role: str  # "home", "again" (returns several times), "rest", or "once" (this place is shown only here)
    start: float
    end: float
    actor: Actor | None
    sign: Sign | None
    seed: int


@dataclass(frozen=True)
class NarrationLine:
    """One narrated line, with the span in which it is said and its content."""

    start: float
    end: float
    text: str
    kind: str  # "fact", "topic", "aside", "event", "filler"
    name: str = ""
    deed: str = ""
    thing: str = ""


@dataclass(frozen=True)
class Script:
    length: str
    seed: int
    weather: str
    topic: str
    scenes: tuple[Scene, ...]
    lines: tuple[NarrationLine, ...]

    @property
    def duration(self) -> float:
        return self.scenes[-1].end

    def visits(self, place: str) -> tuple[Scene, ...]:
        """The scenes at a place, in order."""
        return tuple(scene for scene in self.scenes if scene.place == place)


def make_script(length: str, seed: int) -> Script:
    """The script of one video of a length ("short", "medium", "long")."""
    rng = np.random.default_rng([LENGTHS.index(length), seed])
    roles, places = _order(rng, length)
    spans = _spans(rng, length, roles)
    busy = 0.35 if length == "short" else 0.7
    sign_words = list(rng.permutation(SIGNS))
    signed = set(
        rng.choice([i for i, r in enumerate(roles) if r == "once"], _signs(length), replace=False).tolist()
    )
    scenes = []
    for index, (role, place, (start, end)) in enumerate(zip(roles, places, spans, strict=True)):
        actor = make_actor(rng) if role == "once" or rng.random() < busy else None
        sign = make_sign(rng, str(sign_words.pop())) if index in signed else None
        scenes.append(Scene(place, role, start, end, actor, sign, int(rng.integers(2**31))))
    weather, topic = str(rng.choice(WEATHERS)), str(rng.choice(TOPICS))
    lines = _narrate(rng, length, topic, scenes)
    return Script(length, seed, weather, topic, tuple(scenes), tuple(lines))


def _signs(length: str) -> int:
    return {"short": 1, "medium": 2, "long": 4}[length]


def make_actor(rng: np.random.Generator) -> Actor:
    """An actor with a random look that stays inside the frame."""
    return Actor(
        shape=str(rng.choice(SHAPES)),
        color=str(rng.choice(list(COLORS))),
        move=str(rng.choice(MOVES)),
        size=int(rng.integers(42, 63)),
        # Far enough from the edges for the widest movement.
        x=float(rng.uniform(126, WIDTH - 126)),
        y=float(rng.uniform(96, HEIGHT - 78)),
        phase=float(rng.uniform(0, 1)),
        pace=float(rng.uniform(0.11, 0.19)),
    )


def make_sign(rng: np.random.Generator, word: str) -> Sign:
    """A sign with a word, in the upper part of the frame, left of the sun."""
    height, width = sign_board(word).shape[:2]
    return Sign(word, int(rng.integers(6, 250 - width)), int(rng.integers(14, 74 - height)))


def _order(rng: np.random.Generator, length: str) -> tuple[list[str], list[str]]:
    """Role and place of each scene. No place follows itself; first and last are never shown only once.

    The number of visits to the place that is counted is uniform over 2 to 5, whatever the length.
    """
    deck = [str(p) for p in rng.permutation(PLACES)]
    home = deck.pop()
    draw = rng.integers
    if length == "short":
        once, again, returning, homes = 4, 0, 0, int(draw(2, 6))
    elif length == "medium":
        once, again, returning, homes = int(draw(4, 8)), int(draw(2, 6)), int(draw(1, 3)), 6
    else:
        once, again, returning, homes = int(draw(9, 12)), int(draw(2, 6)), int(draw(2, 5)), 16
    cards = [("once", deck.pop()) for _ in range(once)]
    if again:
        cards += [("again", deck.pop())] * again
    for _ in range(returning):
        cards += [("rest", deck.pop())] * 2
    cards = _apart(rng, cards + [("home", home)] * homes)
    return [role for role, _ in cards], [place for _, place in cards]


def _apart(rng: np.random.Generator, cards: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same cards, ordered so that no place follows itself and places shown once are not at the ends."""
    # A deal that cannot be finished is thrown away: mending it would favour some orders.
    for _ in range(1000):
        left = [tuple(card) for card in rng.permutation(cards)]
        row: list[tuple[str, str]] = []
        while left:
            fits = [c for c in left if not row or c[1] != row[-1][1]]
            if not row or len(left) == 1:
                fits = [c for c in fits if c[0] != "once"]
            if not fits:
                break
            # The place with the most visits left goes first if its visits could not be separated otherwise.
            weights = np.array([sum(1 for o in left if o[1] == c[1]) ** 1.5 for c in fits], dtype=float)
            card = fits[int(rng.choice(len(fits), p=weights / weights.sum()))]
            row.append(card)
            left.remove(card)
        if not left:
            return [(str(role), str(place)) for role, place in row]
    raise AssertionError("scenes could not be separated")


def _spans(rng: np.random.Generator, length: str, roles: list[str]) -> list[tuple[float, float]]:
    """Start and end of each scene (s), on frame times, uneven; home fills up the length."""
    low, high = SECONDS[length]
    total = float(rng.uniform(low, high))
    once = (8.0, 12.0) if length == "short" else (8.0, 14.0)
    parts = {"once": once, "again": (11.0, 17.0), "rest": (11.0, 19.0)}
    seconds = [float(rng.uniform(*parts[r])) if r in parts else 0.0 for r in roles]
    shares = np.array([float(rng.uniform(0.7, 1.3)) if r == "home" else 0.0 for r in roles])
    least = 10.0 if length == "short" else 16.0
    spare = max(total - sum(seconds), least * roles.count("home"))
    seconds = [s or spare * float(w) for s, w in zip(seconds, shares / shares.sum(), strict=True)]
    ends = np.round(np.cumsum(seconds) * FPS) / FPS
    starts = np.concatenate([[0.0], ends[:-1]])
    return [(float(a), float(b)) for a, b in zip(starts, ends, strict=True)]


def _narrate(rng: np.random.Generator, length: str, topic: str, scenes: list[Scene]) -> list[NarrationLine]:
    """The narrator's lines: at most one at a time, each within one scene, a second from its cuts."""
    gap = {"short": (1.0, 3.0), "medium": (3.0, 7.0), "long": (6.0, 12.0)}[length]
    slots: list[tuple[float, Scene]] = []
    time = 1.0
    for scene in scenes:
        time = max(time, scene.start + 1.25)
        while time + LINE_SECONDS + 1.0 <= scene.end:
            slots.append((round(time, 2), scene))
            time += LINE_SECONDS + float(rng.uniform(*gap))
    texts: list[tuple[str, dict[str, str]] | None] = [None] * len(slots)

    # Lines whose place a question may ask for are in scenes away from home, one each.
    away = [i for i, (_, scene) in enumerate(slots) if scene.role in ("once", "again")]
    seen: set[float] = set()
    for i in [int(i) for i in rng.permutation(away)]:
        if slots[i][1].start not in seen and len(seen) < {"short": 2, "medium": 4, "long": 8}[length]:
            seen.add(slots[i][1].start)
            who = [str(rng.choice(part)) for part in (LINE_KINDS, LINE_WHO, LINE_DOES)]
            text = f"The {who[0]} {who[1]} {who[2]}."
            if all(other is None or other[0] != text for other in texts):
                texts[i] = (text, {"kind": "event"})
    free = [int(i) for i in rng.permutation([i for i, text in enumerate(texts) if text is None])]
    names, deeds, things = rng.permutation(NAMES), rng.permutation(DEEDS * 2), rng.permutation(THINGS)
    for k in range({"short": 3, "medium": 6, "long": 10}[length]):
        fact = {"name": str(names[k]), "deed": str(deeds[k]), "thing": str(things[k])}
        texts[free.pop()] = (str(rng.choice(FACT_LINES)).format(**fact), {"kind": "fact", **fact})
    other_topics = [str(t) for t in rng.permutation([t for t in TOPICS if t != topic])]
    for other in other_topics[: {"short": 1, "medium": 2, "long": 4}[length]]:
        texts[free.pop()] = (str(rng.choice(ASIDE_LINES)).format(topic=other), {"kind": "aside"})
    for _ in range(max(3, round(len(slots) * 0.2))):
        if free:
            texts[free.pop()] = (str(rng.choice(TOPIC_LINES)).format(topic=topic), {"kind": "topic"})
    for i in free:
        texts[i] = (str(rng.choice(FILLER_LINES)), {"kind": "filler"})
    return [
        NarrationLine(start, start + LINE_SECONDS, text[0], **text[1])
        for (start, _), text in zip(slots, texts, strict=True)
        if text is not None
    ]
