"""Selects the questions to ask, their order, and the position of the correct option.

Of a benchmark's questions, those with no known answer and those of held-out families are left out; the
options of the others are shuffled.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from videopro import benchmarks
from videopro.benchmarks import Benchmark, Item
from videopro.cli import did_you_mean
from videopro.errors import ConfigError
from videopro.question import LETTERS, Question

# The split that may be used for training, for sources with several.
TRAINING_SPLITS = {"pocket": "train", "cg_bench": "full", "jsonl": ""}

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
    left_out: Counter[str] = field(default_factory=Counter)
    """Questions that are not asked, by reason."""

    def select(self, *, limit: int | None = None, ids: Sequence[str] = ()) -> list[Item]:
        """The first `limit` of them, or those of these ids. Raises ConfigError for an unknown id or a limit
        below 1."""
        if ids:
            return self.benchmark.select(ids=ids)
        if limit is not None and limit < 1:
            raise ConfigError(f"limit is {limit}; it must be at least 1 (leave it out for all questions)")
        return list(self.benchmark.items[:limit])


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
        split = "fresh" if world_seed is not None else TRAINING_SPLITS.get(name, "")
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
    left_out: Counter[str] = Counter()
    answerable = []
    for item in benchmark.items:
        if item.question.is_open:
            left_out["open, without options to train on"] += 1
        elif item.answer is None:
            left_out["no known answer"] += 1
        elif item.groups.get("family") in without_family:
            left_out[f"family {item.groups['family']} held out"] += 1
        else:
            answerable.append(item)
    if not answerable:
        raise ConfigError(
            f"{benchmark.name}, split {benchmark.split!r}: no question is left to ask "
            f"({', '.join(f'{count} {reason}' for reason, count in left_out.items())}); synthesis needs "
            "answers"
        )
    order = replace(benchmark, items=answerable).select(limit=len(answerable), seed=seed)
    return QuestionSelection(replace(benchmark, items=balance_letters(order, seed)), left_out)


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
