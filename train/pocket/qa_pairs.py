"""The pocket model's training data without pictures: exchanges about lines of text.

An exchange is a user text and the reply to it. User texts are the prompts of `videopro.question.prompts`.
Only the usual phrasings of the world are used. `videopro.train.pocket.tasks` adds exchanges about pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from videopro.pocket import lexicon, questions
from videopro.pocket.vocabulary import (
    ASIDE_LINES,
    COLORS,
    COUNTS,
    DEEDS,
    FACT_LINES,
    FILLER_LINES,
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
    TOPIC_LINES,
    TOPICS,
    WEATHERS,
)
from videopro.question import Question, prompts

Rng = np.random.Generator
QAPair = tuple[str, str]
ALL_COLORS = tuple(COLORS)

# Questions about what is visible, as a program asks them about frames that it has found.
LOCAL = {
    "color": ("What color is the {shape}?", "Which color does the {shape} have?", "What is its color?"),
    "shape": ("Which shape is it?", "What shape do we see?", "Which shape is shown here?"),
    "move": ("What does the {shape} do?", "How does the {shape} move?", "What is the {shape} doing?"),
    "place": ("Which place is this?", "Where is this?", "What place do we see?", "Which place is shown?"),
    "weather": ("What is the weather?", "Which weather is it?", "How is the weather here?"),
    "sign": ("What does the sign say?", "Which word is on the sign?", "What is written on the sign?"),
}
POOLS = {
    "color": ALL_COLORS, "shape": SHAPES, "move": MOVES, "place": PLACES, "weather": WEATHERS, "sign": SIGNS,
}  # fmt: skip


@dataclass(frozen=True)
class PocketExample:
    """`frames` (n, h, w, 3) uint8 with their `times` (s) for a video, one `picture` (h, w, 3), or neither."""

    exchanges: Sequence[QAPair]
    frames: np.ndarray | None = None
    times: Sequence[float] = ()
    picture: np.ndarray | None = None


def choose(rng: Rng, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]


def lettered_pair(rng: Rng, text: str, answer: str, pool: Sequence[str], context: str = "") -> QAPair:
    """A question with 2 to 6 options from a pool, mostly 4; the reply is the right letter."""
    # A pool of few values cannot give more options.
    count = min(int(rng.choice([2, 3, 4, 5, 6], p=[0.06, 0.07, 0.74, 0.07, 0.06])), len(pool))
    wrong = [o for o in pool if o != answer]
    options = [answer, *(wrong[int(i)] for i in rng.permutation(len(wrong))[: count - 1])]
    options = [options[int(i)] for i in rng.permutation(len(options))]
    prompt = prompts.multiple_choice(Question(text, tuple(options)))
    return prompts.with_context(context, prompt), questions.LETTERS[options.index(answer)]


def open_pair(text: str, answer: str, context: str = "") -> QAPair:
    # With a leading space, the word is the same token as in the options.
    return prompts.with_context(context, prompts.open_ended(text)), f" {answer}"


def question_pair(rng: Rng, text: str, answer: str, pool: Sequence[str], context: str = "") -> QAPair:
    if rng.random() < 0.72:
        return lettered_pair(rng, text, answer, pool, context)
    return open_pair(text, answer, context)


# ---- text only -------------------------------------------------------------------------------------------


def pick(rng: Rng, level: int = 3) -> QAPair:
    """Pick the option that is named, a skill that every lettered answer depends on.

    It emerges within a few hundred steps on two to four of eight words with nothing else in the prompt, and
    transfers from there; trained on all words and the full prompt from the start, it does not. Levels: 0
    colours, 1 visible things, 2 all words, 3 all words in the full prompt.
    """
    pool: Sequence[str] = ALL_COLORS if level == 0 else POOLS[choose(rng, list(POOLS))]
    if level >= 2 and rng.random() < 0.5:
        pool = one_pool(rng)
    answer = choose(rng, pool)
    if level == 3 or (level > 0 and rng.random() < 0.4):
        return lettered_pair(rng, f"Pick {answer}.", answer, pool)
    options = [pool[int(i)] for i in rng.permutation(len(pool))[: int(rng.integers(2, 5))]]
    if answer not in options:
        options[int(rng.integers(len(options)))] = answer
    question = Question(f"Pick {answer}.", tuple(options))
    return f"{question.text}\n{question.lettered_choices()}", questions.LETTERS[options.index(answer)]


def pick_count(rng: Rng) -> QAPair:
    """Pick a named number, or one that was counted: the model does not read digits as it reads words."""
    if rng.random() < 0.5:
        return count_pair(rng)
    number = choose(rng, COUNTS)
    return lettered_pair(rng, f"Pick {number}.", number, COUNTS)


def one_pool(rng: Rng) -> Sequence[str]:
    return (THINGS, TOPICS, NAMES, PLACES)[int(rng.integers(4))]


def narration_pair(rng: Rng) -> QAPair:
    """Find a fact in a few lines of narration."""
    count = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.25, 0.2, 0.15]))
    names, items = rng.permutation(NAMES), rng.permutation(THINGS)
    deeds = [choose(rng, DEEDS) for _ in range(count)]
    lines = [
        choose(rng, FACT_LINES).format(name=names[k], deed=deeds[k], thing=items[k]) for k in range(count)
    ]
    lines += [_aside(rng) for _ in range(int(rng.integers(0, 4)))]
    lines = [lines[int(i)] for i in rng.permutation(len(lines))]
    form = choose(rng, PHRASINGS["narration"]["usual"])
    text = form.format(name=names[0], deed=deeds[0])
    return question_pair(rng, text, str(items[0]), THINGS, _subtitled(rng, lines))


def story(rng: Rng) -> QAPair:
    """Find the topic that recurs in the lines; others are named once."""
    topics = [str(t) for t in rng.permutation(TOPICS)]
    scale = 4 if rng.random() < 0.3 else 1  # as many lines as a whole video has
    lines = [
        choose(rng, TOPIC_LINES).format(topic=topics[0])
        for _ in range((1 + scale) * int(rng.integers(2, 9)) // 2)
    ]
    lines += [choose(rng, ASIDE_LINES).format(topic=t) for t in topics[1 : 1 + int(rng.integers(0, 4))]]
    lines += [_aside(rng) for _ in range(scale * int(rng.integers(0, 9)))]
    lines = [lines[int(i)] for i in rng.permutation(len(lines))]
    return question_pair(
        rng, choose(rng, PHRASINGS["story"]["usual"]), topics[0], TOPICS, _subtitled(rng, lines)
    )


def read_sign(rng: Rng) -> QAPair:
    """Say what a sign says, given its OCR text."""
    word = choose(rng, SIGNS)
    other = choose(rng, SIGNS).lower() if rng.random() < 0.2 else ""
    context = (
        f"{choose(rng, ('Text', 'Text read from the frames', 'The sign reads'))}: {word} {other}".rstrip()
    )
    place = choose(rng, PLACES)
    forms = (*LOCAL["sign"], *PHRASINGS["sign"]["usual"])
    return question_pair(rng, choose(rng, forms).format(place=place), word, SIGNS, context)


def description_pair(rng: Rng) -> QAPair:
    """Answer a question about one of several scenes that are described in words."""
    count = int(rng.choice([1, 2, 3, 4]))
    places = [str(p) for p in rng.permutation(PLACES)[:count]]
    looks = [(choose(rng, ALL_COLORS), choose(rng, SHAPES), choose(rng, MOVES)) for _ in places]
    lines = [f"A {c} {s} {m} at the {p}." for p, (c, s, m) in zip(places, looks, strict=True)]
    color, shape, move = looks[0]
    kind, answer = (("color", color), ("shape", shape), ("move", move))[int(rng.integers(3))]
    text = choose(rng, PHRASINGS[kind]["usual"]).format(place=places[0], shape=shape)
    context = "\n".join(lines[int(i)] for i in rng.permutation(count))
    return question_pair(rng, text, answer, POOLS[kind], context)


def count_pair(rng: Rng) -> QAPair:
    """Say how many there are, given a count."""
    place, number = choose(rng, PLACES), choose(rng, COUNTS)
    context = choose(
        rng, ("scenes at the {}: {}", "The {} is shown {} times.", "count of scenes at the {}: {}")
    )
    text = choose(rng, PHRASINGS["count"]["usual"]).format(place=place)
    return question_pair(rng, text, number, COUNTS, context.format(place, number))


def motion_pair(rng: Rng) -> QAPair:
    """Say what something does, given a description of it."""
    place, shape, move = choose(rng, PLACES), choose(rng, SHAPES), choose(rng, MOVES)
    context = choose(rng, ("the {} {} at the {}", "The {} {}.", "A {} {} at the {}.")).format(
        shape, move, place
    )
    forms = (*PHRASINGS["move"]["usual"], *LOCAL["move"])
    return question_pair(rng, choose(rng, forms).format(place=place, shape=shape), move, MOVES, context)


def spoken_pair(rng: Rng) -> QAPair:
    """Say whether the narrator says a line: yes or no."""
    lines = [_event(rng) for _ in range(int(rng.integers(1, 4)))]
    is_spoken = rng.random() < 0.5
    line = choose(rng, lines) if is_spoken else _event(rng)
    text = f'Does the narrator say "{line}"'
    # Not by the toss: a line drawn at random may be among those that are spoken.
    return prompts.with_context(
        _subtitled(rng, lines), prompts.yes_no(text)
    ), "Yes" if line in lines else "No"


def _event(rng: Rng) -> str:
    return f"The {choose(rng, LINE_KINDS)} {choose(rng, LINE_WHO)} {choose(rng, LINE_DOES)}."


def _aside(rng: Rng) -> str:
    return choose(rng, FILLER_LINES) if rng.random() < 0.6 else _event(rng)


def _subtitled(rng: Rng, lines: Sequence[str]) -> str:
    return choose(rng, ("Subtitles:\n", "Narration:\n", "")) + choose(rng, ("\n", " ")).join(lines)


TEXT_TASKS: tuple[tuple[Callable[[Rng], QAPair], float], ...] = (
    (pick, 0.3),
    (narration_pair, 0.22),
    (story, 0.14),
    (read_sign, 0.1),
    (description_pair, 0.16),
    (spoken_pair, 0.08),
    (count_pair, 0.08),
    (motion_pair, 0.08),
)


FOUND_TASKS = (narration_pair, story, read_sign, count_pair, motion_pair)


def pick_row(rng: Rng, level: int) -> PocketExample:
    return PocketExample([pick(rng, level) for _ in range(10)])


def text_row(rng: Rng, easy: float) -> PocketExample:
    """Eight exchanges without pictures; `easy` is the share of `pick` on top of its usual one."""
    weights = np.array([w for _, w in TEXT_TASKS])
    tasks = [task for task, _ in TEXT_TASKS]
    exchanges = [
        pick(rng)
        if rng.random() < easy
        else tasks[int(rng.choice(len(tasks), p=weights / weights.sum()))](rng)
        for _ in range(8)
    ]
    return PocketExample(exchanges)


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
