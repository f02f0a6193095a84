"""Which questions are asked: their filters, their order, the position of the correct option, the dataset that
their video is for, and the modules that their programs may call.

Of a benchmark's questions, those with no known answer and those of held-out families are left out; the
options of the others are shuffled. A planner that GRPO asks about questions that it was fine-tuned on is
right already and has nothing to gain, and questions about one video share what it shows: so the datasets for
SFT and for GRPO share no video. A group of modules is left out of some questions, so that a planner learns to
read what is there; and in some rows of SFT all modules have drawn names, so that it learns to read names too.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from videopro import benchmarks
from videopro.benchmarks import BENCHMARKS, Benchmark, Item
from videopro.errors import ConfigError
from videopro.methods.program import derive_seed
from videopro.modules import DRAWN_NAMES, named_modules, reference_text
from videopro.modules.calls import REMOVABLE, ClipTimes
from videopro.question import LETTERS, Question
from videopro.traces import ReferenceForm, Trace


@dataclass(frozen=True)
class FilterStep:
    """One filter: what it removed and what it left."""

    name: str
    removed: int
    """Questions."""
    questions: int
    """Left after it."""
    videos: int
    """Left after it: those with a question left."""
    because: Mapping[str, int] = field(default_factory=dict)
    """The removed questions by a closer reason, where the filter has several."""


class Filters:
    """The questions that are left of a source, and the steps that led to them."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = list(items)
        self.steps = [FilterStep("questions of the source", 0, len(items), _videos(items))]

    def remove(self, name: str, reason: Callable[[Item], str | bool | None]) -> None:
        """Remove the questions for which `reason` is true, or a text: the closer reason. A filter that
        removes none is a step too: that it found nothing is worth knowing."""
        reasons = [(item, reason(item)) for item in self.items]
        self.items = [item for item, reason in reasons if not reason]
        because = Counter(reason for _, reason in reasons if isinstance(reason, str))
        removed = len(reasons) - len(self.items)
        self.steps.append(
            FilterStep(name, removed, len(self.items), _videos(self.items), dict(sorted(because.items())))
        )

    def removed(self) -> dict[str, int]:
        """Removed questions by filter, without filters that removed none."""
        counts: Counter[str] = Counter()
        for step in self.steps:
            counts[step.name] += step.removed
        return {name: count for name, count in sorted(counts.items()) if count}

    def summary(self) -> str:
        """The removed questions in one line."""
        counts = ", ".join(f"{name}: {count:,}" for name, count in self.removed().items())
        return f"left out of {self.steps[0].questions:,}: {counts or 'none'}"


def _videos(items: Iterable[Item]) -> int:
    return len({item.video_key for item in items})


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

    def select(self, *, limit: int | None = None, ids: Sequence[str] = ()) -> list[Item]:
        """Of the questions that the filters leave, those of these ids, or all; of these, the first `limit`.
        Raises ConfigError for an unknown id, and a limit below 1."""
        if limit is not None and limit < 1:
            raise ConfigError(f"limit is {limit}; it must be at least 1 (leave it out for all questions)")
        items = list(self.filters.items)
        if ids:
            # An id that a filter left out is no mistake; one that the source does not have is.
            named = {item.id for item in self.benchmark.select(ids=ids)}
            items = [item for item in items if item.id in named]
        return items[:limit]


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


def select_questions(benchmark: Benchmark, *, seed: int) -> QuestionSelection:
    """Select the questions. A question's position and options depend on the source and `seed`, never on how
    many are asked, so that a larger limit only adds questions. Raises ConfigError if none is left."""
    filters = Filters(benchmark.items)
    filters.remove("open, without options to train on", lambda item: item.question.is_open)
    filters.remove("no known answer", lambda item: item.answer is None)
    if not filters.items:
        raise ConfigError(
            f"{benchmark.name}, split {benchmark.split!r}: no question is left to ask ({filters.summary()}); "
            "choose a split with answers"
        )
    answerable = filters.items
    order = replace(benchmark, items=answerable).select(limit=len(answerable), seed=seed)
    filters.items = balance_letters(order, seed)
    return QuestionSelection(replace(benchmark, items=filters.items), filters)


def balance_letters(items: Iterable[Item], seed: int) -> list[Item]:
    """The same questions with their options shuffled so that the correct letters are balanced: among n
    consecutive questions with n options, each letter is correct once, in random order.

    Questions with options whose order matters do not change.
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


Side = Literal["sft", "grpo"]


def drawn(video: str, salt: str) -> float:
    """A number in 0..1 for a video's key: the same in every source, order and version."""
    digest = hashlib.sha256(f"{salt}\0{video}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class VideoSplit:
    """The side of each video. It depends on the video's key, the seed and the share alone: neither a larger
    limit nor another filter moves a video to the other side."""

    sft_share: float | None
    """The share of the videos whose rows are for SFT; None: every video gives rows of both kinds."""
    seed: int

    def serves(self, video_key: str, side: Side) -> bool:
        """Whether a video gives rows of this side."""
        if self.sft_share is None:
            return True
        is_sft = drawn(video_key, f"{self.seed} sft") < self.sft_share
        return is_sft == (side == "sft")


UNDIVIDED = VideoSplit(None, 0)
"""Every video gives rows of both kinds."""


MODULES = "modules"
"""The note on the native round: the names of the modules that the question had, separated by blanks."""
WITHOUT = "without"
"""The note next to it: the group that was left out, if one was."""


@dataclass(frozen=True)
class ModuleDrops:
    """How often a group of modules is left out. The draw depends on the seed and the question's id alone, so
    that a resumed or a larger synthesis makes the same."""

    share: float = 0.0
    seed: int = 0

    def group(self, question_id: str) -> str | None:
        """The group that a question does without; None: it has all modules."""
        draw = random.Random(derive_seed(self.seed, MODULES, question_id))
        return draw.choice(REMOVABLE) if draw.random() < self.share else None


@dataclass(frozen=True)
class RowReference:
    """How the rows' prompts describe the modules."""

    form: ReferenceForm = "none"
    clip_times: ClipTimes = "video"
    renamed: float = 0.0
    """The share of questions whose rows of SFT have drawn names for all modules."""
    seed: int = 0

    def text(self, trace: Trace) -> str:
        """How the prompts about a trace's question describe them."""
        if self.form == "none":
            return ""
        return reference_text(self.form, named_modules(self._names(trace)), self.clip_times)

    def columns(self, trace: Trace) -> dict[str, object]:
        """The fields of a row; empty without a reference."""
        if self.form == "none":
            return {}
        group = trace.rounds[0].notes.get(WITHOUT)
        dropped = {} if group is None else {WITHOUT: [group]}
        return {"reference": self.form, MODULES: self._names(trace), **dropped}

    def renames(self, trace: Trace) -> Callable[[str], str]:
        """What gives the modules of a question's rows their names: a text of a prompt or a reply to the same
        text. The draw depends on the seed and the question's id alone."""
        draw = random.Random(derive_seed(self.seed, "names", trace.question_id))
        if draw.random() >= self.renamed:
            return str
        names = self._names(trace)
        drawn = dict(zip(names, draw.sample(DRAWN_NAMES, len(names)), strict=True))
        # A name of one word is also a word of English.
        called = "|".join(name + ("" if "_" in name else r"(?=\()") for name in names)
        pattern = re.compile(rf"\b(?:{called})\b")
        return lambda text: pattern.sub(lambda found: drawn[found[0]], text)

    def _names(self, trace: Trace) -> list[str]:
        return trace.rounds[0].notes[MODULES].split()


NO_REFERENCE = RowReference()
