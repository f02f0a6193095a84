"""A benchmark's protocol as data: how it is asked, how replies are read, what is reported.

Two runs compare only when their protocols are equal, so a protocol is part of a run's key; and a run folder
that holds it can be scored again without the benchmark. Knows questions; must not know files, methods, models
or runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from videopro.errors import BenchmarkError
from videopro.question import Question

# The parser of a benchmark that publishes no reader of replies: ours is the rule there.
ROBUST = "robust"


@dataclass(frozen=True)
class AnswerPrompt:
    """The words with which a benchmark asks. `text` has the slots {question}, {options}, {subtitles} and
    {frames} (their number).

    >>> AnswerPrompt("x", "{question}\\n{options}", option="({letter}) {text}").fill(
    ...     Question("Which?", ("a", "b")))
    'Which?\\n(A) a\\n(B) b'
    """

    source: str
    """Whose words these are: repository, file and commit."""
    text: str
    option: str = "{letter}. {text}"
    """One line an option."""
    subtitles: str = ""
    """What {subtitles} stands for where there are lines, with the slot {lines}; else it is empty."""

    def fill(self, question: Question, lines: Sequence[str] = (), frames: int = 0) -> str:
        """The prompt for a question, with the subtitle lines that go with it."""
        options = "\n".join(
            _filled(self.option, {"letter": letter, "text": choice})
            for letter, choice in zip(question.letters, question.choices, strict=True)
        )
        said = _filled(self.subtitles, {"lines": "\n".join(lines)}) if lines else ""
        return _filled(
            self.text,
            {"question": question.text, "options": options, "subtitles": said, "frames": str(frames)},
        )


def _filled(template: str, values: Mapping[str, str]) -> str:
    # In one pass: braces in a question or in a JSON example are no slots.
    return re.sub(r"\{(\w+)\}", lambda slot: values.get(slot[1], slot[0]), template)


@dataclass(frozen=True)
class JudgePrompt:
    """The words with which a judge model is asked to grade an open answer. `text` has the slots {question},
    {reference} and {answer}; grades are whole numbers from `low` to `high`."""

    source: str
    system: str
    text: str
    low: int = 0
    high: int = 3

    def fill(self, question: str, reference: str, answer: str) -> str:
        """The user's turn."""
        return _filled(self.text, {"question": question, "reference": reference, "answer": answer})


@dataclass(frozen=True)
class Metric:
    """A number that a benchmark is reported by; what the kinds mean is in `videopro.benchmarks.metrics`."""

    name: str
    kind: Literal["accuracy", "macro", "iou", "recall_at_iou", "accuracy_at_iou", "grade"] = "accuracy"
    over: str = ""
    """A kind of group, such as "task"."""
    of: tuple[str, ...] = ()
    """The groups of that kind that count; empty: all of them."""


@dataclass(frozen=True)
class Protocol:
    """How a benchmark is asked and scored; part of a run's key."""

    parser: str
    """Name of the official reader of replies (a key of `videopro.question.OFFICIAL_EXTRACTORS`), or
    ROBUST."""
    prompt: str = "multiple_choice"
    """Name of the answer prompt in `videopro.prompts` that asks where there is no `answer_prompt`."""
    official_unparsed: Literal["wrong", "left out"] = "wrong"
    """What a reply counts as that the official reader cannot read: wrong, or not at all."""
    name: str = ""
    """What `--protocol` calls it."""
    answer_prompt: AnswerPrompt | None = None
    """The benchmark's own words for the direct question; None: ours. Modules of programs ask in our words."""
    reply: Literal["letter", "text"] = "letter"
    """What is read of the direct answer: the distribution over its first token, or a written reply."""
    reply_tokens: int = 256
    """Longest written reply, in tokens."""
    subtitles: Literal["none", "offered", "frames", "frames_widened", "all"] = "offered"
    """none: no method gets any. offered: each method uses the listed ones by its own settings. Otherwise the
    direct prompt shows the lines that are on at its frames, the same with windows under 1 s widened to 1 s
    (LongVideoBench), or all."""
    shown: Literal["video", "clues"] = "video"
    """What of the video is shown: all of it, or only the intervals that hold the clue (CG-Bench)."""
    groups: tuple[str, ...] = ("family", "duration")
    """The groups that the benchmark is reported by; others are in the summary only."""
    metrics: tuple[Metric, ...] = ()
    """What is reported beside accuracy, in the benchmark's own terms."""
    judge: JudgePrompt | None = None
    """How open answers are graded."""

    def identity(self) -> dict[str, Any]:
        """What a run's key hashes: what differs from the defaults, so that a new field leaves the keys of
        older runs as they were."""
        own = asdict(self)
        always = ("parser", "prompt", "official_unparsed")
        return {
            one.name: own[one.name]
            for one in fields(self)
            if one.name in always or getattr(self, one.name) != one.default
        }

    @classmethod
    def from_identity(cls, recorded: Mapping[str, Any]) -> Protocol:
        """The protocol that a run folder recorded. Raises BenchmarkError for what is none."""
        known = {one.name for one in fields(cls)}
        own = {key: value for key, value in recorded.items() if key in known}
        try:
            for key, kind in (("answer_prompt", AnswerPrompt), ("judge", JudgePrompt)):
                if own.get(key) is not None:
                    own[key] = kind(**own[key])
            if "groups" in own:
                own["groups"] = tuple(own["groups"])
            own["metrics"] = tuple(
                Metric(**{**one, "of": tuple(one.get("of", ()))}) for one in own.get("metrics", ())
            )
            return cls(**own)
        except TypeError as error:
            raise BenchmarkError(f"the recorded protocol cannot be read: {error}") from error
