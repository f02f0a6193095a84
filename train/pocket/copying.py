"""Exchanges that teach the pocket model to copy what it has read: random words, code and filled-in lines.

A hub model can copy a name into a string long before it is fine-tuned as a planner. The pocket model was
first taught short answers only, and training adapters alone did not make it copy. The exchanges contain
nothing about which program answers which question.
"""

from collections.abc import Callable, Sequence

from videopro.pocket import lexicon
from videopro.pocket.vocabulary import (
    COLORS,
    DEEDS,
    LINE_DOES,
    LINE_KINDS,
    LINE_WHO,
    NAMES,
    PLACES,
    SHAPES,
    SIGNS,
    THINGS,
    TOPICS,
)
from videopro.train.pocket.qa_pairs import PocketExample, QAPair, Rng, pick_count

WORLD: Sequence[str] = (
    *COLORS, *SHAPES, *PLACES, *SIGNS, *NAMES, *DEEDS, *THINGS, *TOPICS, *LINE_KINDS, *LINE_WHO, *LINE_DOES,
)  # fmt: skip
CODE: Sequence[str] = tuple(
    dict.fromkeys(f"{lexicon.MODULES} {lexicon.NAMES} {lexicon.PYTHON} {lexicon.PLANNING}".split())
)
MARKS = ("(", ")", "[", "]", ",", ":", " =", ".", '"', " +", "\n", "\n    ", "\n        ", " ", "1", "0", "3")


def repeat_line(rng: Rng, count: int) -> QAPair:
    """`count` words to be written again: the task on which copying emerges first."""
    text = " ".join(_random_items(rng, count, (*WORLD, *CODE)))
    return f"Write it again: {text}", text


def repeat_code(rng: Rng) -> QAPair:
    """Names and punctuation as in code, in random order."""
    pieces = [
        _random_item(rng, MARKS if rng.random() < 0.4 else CODE) for _ in range(int(rng.integers(12, 40)))
    ]
    text = "".join(pieces).strip()
    return f"Write it again:\n{text}", text


def name_item(rng: Rng) -> QAPair:
    """Write the two words that follow a given word in a line."""
    # Each word once, so that one place in the line is right.
    items = list(dict.fromkeys(_random_items(rng, int(rng.integers(8, 15)), WORLD)))
    at = int(rng.integers(len(items) - 2))
    return f"{' '.join(items)}\nWrite the two words after {items[at]}.", " ".join(items[at + 1 : at + 3])


def fill_template(rng: Rng) -> QAPair:
    """Fill the values of a list into a line, each once or twice."""
    names = [str(name) for name in rng.permutation(("thing", "place", "name", "line", "word"))[:2]]
    values = [" ".join(_random_items(rng, int(rng.integers(1, 4)), WORLD)) for _ in names]
    frame = _random_items(rng, int(rng.integers(4, 13)), CODE)
    for name in names:
        for _ in range(int(rng.integers(1, 3))):
            frame.insert(int(rng.integers(len(frame) + 1)), f"<{name}>")
    template = filled = " ".join(frame)
    for name, value in zip(names, values, strict=True):
        filled = filled.replace(f"<{name}>", value)
    values_text = "\n".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    return f"{values_text}\nFill in: {template}", filled


MIXED: Sequence[Callable[[Rng], QAPair]] = (repeat_code, name_item, fill_template)


def copying_rows(rng: Rng, rows: int, mixed: float) -> list[PocketExample]:
    """Rows of one exchange each. `mixed` is the share of rows from MIXED; all others repeat the same number
    of words, so that little is padded."""
    count = int(rng.integers(8, 21))
    return [
        PocketExample([_random_task(rng, MIXED)(rng) if rng.random() < mixed else repeat_line(rng, count)])
        for _ in range(rows)
    ]


def with_copying(rng: Rng, row: PocketExample) -> PocketExample:
    """The same row with two more exchanges: words to write again, and a number to pick."""
    extra = [repeat_line(rng, int(rng.integers(4, 13))), pick_count(rng)]
    return PocketExample([*row.exchanges, *extra], row.frames, row.times, row.picture)


def _random_items(rng: Rng, count: int, pool: Sequence[str]) -> list[str]:
    return [_random_item(rng, pool) for _ in range(count)]


def _random_item(rng: Rng, pool: Sequence[str]) -> str:
    return pool[int(rng.integers(len(pool)))]


def _random_task(rng: Rng, pool: Sequence[Callable[[Rng], QAPair]]) -> Callable[[Rng], QAPair]:
    return pool[int(rng.integers(len(pool)))]
