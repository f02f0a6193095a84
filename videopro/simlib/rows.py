"""Rows: a library that is drawn anew, with questions about one story, in training and in each test."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from videopro.simlib.library import MEASURED, Channel, Library, Offered
from videopro.simlib.operations import (
    ARGUMENT_NAMES,
    GENERAL,
    HELD_OUT_NAMES,
    HELD_OUT_WORDINGS,
    NAMES,
    OPERATIONS,
    UNSEEN,
    WORDINGS,
)
from videopro.simlib.routes import Choice, choices
from videopro.simlib.story import KINDS, WORLDS, Asked, Story, make_story

TRAINED = tuple(key for key in OPERATIONS if key not in UNSEEN)
"""The operations of libraries in training."""
NEW_KINDS = frozenset(OPERATIONS[key].kind for key in UNSEEN)
"""The kinds of their questions, which training does not ask: else it would teach to answer them without."""
TRAINED_KINDS = frozenset(KINDS) - NEW_KINDS
TRAINED_NAMES = tuple(name for name in NAMES if name not in set(HELD_OUT_NAMES))
TRAINED_WORDINGS = tuple(wording for wording in WORDINGS if wording not in HELD_OUT_WORDINGS)
TESTS = ("fixed", "dropped", "renamed", "both", "new", "new_only", "wordings")
"""What is tested; `draw_rows` says how each differs."""


@dataclass(frozen=True)
class Row:
    """Questions about one story with one library, each with the oracle's choice."""

    story: Story
    library: Library
    asked: tuple[Asked, ...]
    best: tuple[Choice, ...]


def draw_library(
    rng: np.random.Generator,
    keys: Sequence[str],
    *,
    renamed: float = 0.0,
    names: Sequence[str] = TRAINED_NAMES,
    wordings: Sequence[tuple[int, int]] = TRAINED_WORDINGS,
) -> Library:
    """A library of these operations in a drawn order. Each is renamed with the probability `renamed`: with a
    name, names of arguments and a wording that are drawn."""
    drawn = rng.choice(len(names), len(keys), replace=False)
    offers = []
    for key, at in zip([str(key) for key in rng.permutation(keys)], drawn, strict=True):
        if rng.random() >= renamed:
            offers.append(Offered(key, key))
            continue
        forms = [ARGUMENT_NAMES[role] for role in OPERATIONS[key].arguments]
        arguments = tuple(form[int(rng.integers(len(form)))] for form in forms)
        wording = wordings[int(rng.integers(len(wordings)))]
        offers.append(Offered(key, names[int(at)], wording, arguments))
    return Library(tuple(offers))


def dropped(rng: np.random.Generator, keys: Sequence[str]) -> list[str]:
    """A subset: three in four of the general operations, half of the special ones."""
    return [key for key in keys if rng.random() < (0.75 if key in GENERAL else 0.5)]


def draw_rows(
    test: str, world: str, count: int, *, seed: int = 0, channel: Channel = MEASURED
) -> Iterator[Row]:
    """The rows of a test, one a story; each `seed` has stories and libraries of its own.

    `fixed`: the library of training under its own names; `dropped`: a subset of it; `renamed`: all of it,
    under names that no training has; `both`. `new`: a subset with operations that no training has, renamed,
    and questions for these; `new_only`: the same where no other route is better than a guess from frames of
    the whole video. `wordings`: as `both` in trained names, with held-out descriptions.
    """
    for number in range(count):
        rng = np.random.default_rng([7, WORLDS.index(world), seed, TESTS.index(test), number])
        story = make_story(world, seed * 10**7 + number)
        if test in ("fixed", "renamed"):
            keys: Sequence[str] = TRAINED
        else:
            keys = dropped(rng, TRAINED)
        if test in ("new", "new_only"):
            # Without them no search, no look at the whole: what is left is the new module.
            lost = (
                "get_informative_clips",
                "get_informative_subtitles",
                "get_subtitle_hints",
                "query_native",
            )
            keys = [key for key in keys if test == "new" or key not in lost] + list(UNSEEN)
        library = draw_library(
            rng,
            keys,
            renamed=0.0 if test in ("fixed", "dropped") else 1.0,
            names=HELD_OUT_NAMES if test in ("renamed", "both") else TRAINED_NAMES,
            wordings=HELD_OUT_WORDINGS if test == "wordings" else TRAINED_WORDINGS,
        )
        kinds = NEW_KINDS if test in ("new", "new_only") else TRAINED_KINDS
        yield row_of(story, library, channel, kinds)


def row_of(story: Story, library: Library, channel: Channel, kinds: Collection[str]) -> Row:
    """The questions of a story, of these kinds, that a library can answer in any way."""
    asked, best = [], []
    for each in story.questions:
        if each.kind in kinds:
            possible = choices(each, library, channel)
            if possible:
                asked.append(each)
                best.append(possible[0])
    return Row(story, library, tuple(asked), tuple(best))
