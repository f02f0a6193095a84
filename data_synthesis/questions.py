"""Selects the questions to ask, their order, and the position of the correct option.

Of a benchmark's questions, those with no known answer and those of held-out families are left out; the
options of the others are shuffled.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from videopro import benchmarks
from videopro.benchmarks import BENCHMARKS, Benchmark, Item
from videopro.cli import did_you_mean
from videopro.data_synthesis.filters import Filters
from videopro.errors import ConfigError
from videopro.question import LETTERS, Question

# Letters that an option may mean by "option B", of however few options the question is.
_USUAL = 10


@cache
def _pointing(count: int) -> re.Pattern[str]:
    """Options, of `count`, that refer to others by position or letter: they change their meaning when they
    move."""
    letter = f"[A-{LETTERS[max(count, _USUAL) - 1]}]"
    return re.compile(
        rf"\bof the (?:above|below)\b|\b(?:options?|choices?|answers?) \(?{letter}\b"
        rf"|^\W*(?:both |either |neither )?\(?{letter}\)?\s*(?:,|and|or|nor|&)\s*\(?{letter}\)?\b",
        re.IGNORECASE,
    )


@dataclass(frozen=True)
class QuestionSelection:
    """The questions of a synthesis in the order in which they are asked."""

    benchmark: Benchmark
    """Its items are all questions that could be asked, with their options in the order shown."""
    filters: Filters
    """What is left of them, and why the others are left out."""

    def select(self, *, limit: int | None = None, offset: int = 0, ids: Sequence[str] = ()) -> list[Item]:
        """Of the questions that the filters leave, those of these ids, or all; of these, `limit` after the
        first `offset`. Raises ConfigError for an unknown id, a limit below 1, and an offset that leaves
        nothing."""
        if limit is not None and limit < 1:
            raise ConfigError(f"limit is {limit}; it must be at least 1 (leave it out for all questions)")
        items = list(self.filters.items)
        if ids:
            # An id that a filter left out is no mistake; one that the source does not have is.
            named = {item.id for item in self.benchmark.select(ids=ids)}
            items = [item for item in items if item.id in named]
        if offset and not 0 <= offset < len(items):
            raise ConfigError(
                f"offset is {offset}; it must be at least 0 and below {len(items)}, the number of questions "
                f"after the filters ({self.filters.summary()})"
            )
        return items[offset:][:limit]


def load_source(
    name: str,
    *,
    split: str | None,
    root: Path | None,
    world_seed: int | None,
    subtitle_track: str | None = None,
) -> Benchmark:
    """The source's questions as published; `split` None: the training split. Raises BenchmarkError, and
    ConfigError for a track that no question's subtitles can have."""
    if split is None:
        split = "fresh" if world_seed is not None else BENCHMARKS[name].training_split
    benchmark = benchmarks.load(name, split=split, root=root, world_seed=world_seed)
    return benchmark.with_subtitle_track(subtitle_track)


def select_questions(
    benchmark: Benchmark, *, seed: int, without_family: Sequence[str] = ()
) -> QuestionSelection:
    """Select the questions. A question's position and options depend on the source, `seed` and what is held
    out, never on how many are asked, so that a larger limit only adds questions. Raises ConfigError for an
    unknown family."""
    families = {item.groups.get("family", "") for item in benchmark.items} - {""}
    for name in without_family:
        if name not in families:
            hint = did_you_mean(name, sorted(families)) if families else "this source names no families"
            raise ConfigError(f"without_family: unknown family {name!r}; {hint}")
    filters = Filters(benchmark.items)
    filters.remove("open, without options to train on", lambda item: item.question.is_open)
    filters.remove("no known answer", lambda item: item.answer is None)
    for family in without_family:
        filters.remove(
            f"family {family} held out", partial(lambda name, item: item.groups.get("family") == name, family)
        )
    if not filters.items:
        raise ConfigError(
            f"{benchmark.name}, split {benchmark.split!r}: no question is left to ask ({filters.summary()}); "
            "synthesis needs answers"
        )
    answerable = filters.items
    order = replace(benchmark, items=answerable).select(limit=len(answerable), seed=seed)
    filters.items = balance_letters(order, seed)
    return QuestionSelection(replace(benchmark, items=filters.items), filters)


def balance_letters(items: Iterable[Item], seed: int) -> list[Item]:
    """The same questions with their options shuffled so that the correct letters are balanced: among n
    consecutive questions with n options, each letter is correct once, in random order.

    Questions with options whose order matters stay as they are.
    """
    positions: dict[int, list[int]] = {}
    draw = {n: random.Random(f"{seed} letters of {n}") for n in range(2, len(LETTERS) + 1)}
    shuffled = []
    for item in items:
        count = len(item.question.choices)
        if item.answer is None or any(_pointing(count).search(choice) for choice in item.question.choices):
            shuffled.append(item)
            continue
        if not positions.get(count):
            positions[count] = draw[count].sample(range(count), count)
        shuffled.append(_shuffled(item, positions[count].pop(), seed))
    return shuffled


def _shuffled(item: Item, position: int, seed: int) -> Item:
    """The correct option at `position`, the others in an order determined by the question's id and the
    seed."""
    assert item.answer is not None
    right = item.question.letters.index(item.answer)
    options = [choice for i, choice in enumerate(item.question.choices) if i != right]
    # From the id alone: how the options of a question lie does not depend on the questions before it.
    random.Random(hashlib.sha256(f"{seed}\0{item.id}".encode()).digest()).shuffle(options)
    options.insert(position, item.question.choices[right])
    return replace(
        item, question=Question(item.question.text, tuple(options)), answer=item.question.letters[position]
    )
