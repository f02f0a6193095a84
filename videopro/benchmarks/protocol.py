"""A benchmark's protocol as data: how questions are asked, how replies are parsed, what is reported.

Two runs are comparable only if their protocols are equal, so the protocol is part of a run's key. A run
folder stores it, so it can be scored again without the benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from videopro.errors import BenchmarkError
from videopro.question import Question

# The parser of a benchmark that publishes none: our own.
ROBUST = "robust"


@dataclass(frozen=True)
class AnswerPrompt:
    """The prompt with which a benchmark asks. `text` has the slots {question}, {options}, {subtitles} and
    {frames} (their number).

    >>> AnswerPrompt("x", "{question}\\n{options}", option="({letter}) {text}").fill(
    ...     Question("Which?", ("a", "b")))
    'Which?\\n(A) a\\n(B) b'
    """

    source: str
    """Where the prompt comes from: repository, file and commit."""
    text: str
    option: str = "{letter}. {text}"
    """The line of one option."""
    subtitles: str = ""
    """What replaces {subtitles} if there are subtitle lines, with the slot {lines}; otherwise it is empty."""

    def fill(self, question: Question, lines: Sequence[str] = (), frames: int = 0) -> str:
        """The prompt for a question, with its subtitle lines."""
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
    # In one pass: braces in a question or in a JSON example are not slots.
    return re.sub(r"\{(\w+)\}", lambda slot: values.get(slot[1], slot[0]), template)


@dataclass(frozen=True)
class JudgePrompt:
    """The prompt with which a judge model grades an open answer. `text` has the slots {question},
    {reference} and {answer}; grades are whole numbers from `low` to `high`."""

    source: str
    system: str
    text: str
    low: int = 0
    high: int = 3

    def fill(self, question: str, reference: str, answer: str) -> str:
        """The user turn of the prompt."""
        return _filled(self.text, {"question": question, "reference": reference, "answer": answer})


@dataclass(frozen=True)
class Metric:
    """A number that a benchmark reports; `videopro.benchmarks.metrics` computes each kind."""

    name: str
    kind: Literal["accuracy", "macro", "iou", "recall_at_iou", "accuracy_at_iou", "grade"] = "accuracy"
    over: str = ""
    """Kind of group, such as "task"."""
    of: tuple[str, ...] = ()
    """The groups of that kind to include; empty: all of them."""


@dataclass(frozen=True)
class Protocol:
    """How a benchmark is asked and scored; part of a run's key."""

    parser: str
    """Name of the official answer parser (a key of `videopro.question.OFFICIAL_EXTRACTORS`), or ROBUST."""
    prompt: str = "multiple_choice"
    """Name of the answer prompt in `videopro.prompts` that is used if there is no `answer_prompt`."""
    official_unparsed: Literal["wrong", "left out"] = "wrong"
    """How a reply counts that the official parser cannot read: wrong, or not at all."""
    name: str = ""
    """Name for `--protocol`."""
    answer_prompt: AnswerPrompt | None = None
    """The benchmark's own prompt for the direct question; None: ours. Program modules use our prompts."""
    reply: Literal["letter", "text"] = "letter"
    """How the direct answer is read: from the distribution over its first token, or from a written reply."""
    reply_tokens: int = 256
    """Maximum length of a written reply, in tokens."""
    subtitles: Literal["none", "offered", "frames", "frames_widened", "all"] = "offered"
    """none: no method gets subtitles. offered: each method uses the listed ones according to its settings.
    frames: the direct prompt shows the lines spoken at its frames. frames_widened: the same, with windows
    under 1 s widened to 1 s (LongVideoBench). all: it shows all lines."""
    shown: Literal["video", "clues"] = "video"
    """Which part of the video is shown: all of it, or only the intervals with the clue (CG-Bench)."""
    groups: tuple[str, ...] = ("family", "duration")
    """The groups that the benchmark reports; others are in the summary only."""
    metrics: tuple[Metric, ...] = ()
    """Metrics reported besides accuracy, under the benchmark's names."""
    judge: JudgePrompt | None = None
    """How open answers are graded."""

    def identity(self) -> dict[str, Any]:
        """What a run's key hashes: only what differs from the defaults, so that a new field does not change
        the keys of older runs."""
        own = asdict(self)
        always = ("parser", "prompt", "official_unparsed")
        return {
            field.name: own[field.name]
            for field in fields(self)
            if field.name in always or getattr(self, field.name) != field.default
        }

    @classmethod
    def from_identity(cls, recorded: Mapping[str, Any]) -> Protocol:
        """The protocol recorded in a run folder. Raises BenchmarkError if it is invalid."""
        known = {field.name for field in fields(cls)}
        own = {key: value for key, value in recorded.items() if key in known}
        try:
            for key, kind in (("answer_prompt", AnswerPrompt), ("judge", JudgePrompt)):
                if own.get(key) is not None:
                    own[key] = kind(**own[key])
            if "groups" in own:
                own["groups"] = tuple(own["groups"])
            own["metrics"] = tuple(
                Metric(**{**metric, "of": tuple(metric.get("of", ()))}) for metric in own.get("metrics", ())
            )
            return cls(**own)
        except TypeError as error:
            raise BenchmarkError(f"the recorded protocol cannot be read: {error}") from error
