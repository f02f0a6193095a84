"""A benchmark's protocol as data: how questions are asked, how replies are parsed, what is reported.

Two runs are comparable only if their protocols are equal, so the protocol is part of a run's key. A run
folder stores it, so it can be scored again without the benchmark. Python checks no types: without
`protocol_problems`, a misspelt value in a file of one's own would be taken for another one, and a text in the
place of a tuple for its letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from videopro.cli import did_you_mean
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.traces.scoring import GROUP_SEPARATOR
from videopro.video import LineRule, SampleRule, SubtitleLine

# The parser of a benchmark that publishes none: our own.
ROBUST = "robust"
# What an answer prompt may leave open.
SLOTS = ("question", "options", "subtitles", "frames", "times")


@dataclass(frozen=True)
class AnswerPrompt:
    """The prompt with which a benchmark asks. `text` has the slots {question}, {options}, {subtitles},
    {frames} (their number) and {times} (of the frames, in seconds).

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
    line: str = "{text}"
    """One subtitle line, with the slots {text}, {start} and {end} (seconds)."""
    join: str = "\n"
    """What stands between subtitle lines, and after each that stands between frames."""
    decimals: int | None = None
    """Of {start} and {end}; None: as many as they have, three at most."""
    system: str = ""
    """The system turn; empty: the chat template's own, if it has one."""
    prefill: str = ""
    """The beginning of the reply, which the model continues. Official readers do not see it."""

    def fill(
        self,
        question: Question,
        lines: Sequence[str] = (),
        frames: int = 0,
        times: Sequence[float] = (),
    ) -> str:
        """The user's turn for a question, with its subtitle lines (made by `subtitle_line`) and the times (s)
        of the frames, which are rounded to four digits as CG-Bench does."""
        options = "\n".join(
            _filled(self.option, {"letter": letter, "text": choice})
            for letter, choice in zip(question.letters, question.choices, strict=True)
        )
        subtitles = _filled(self.subtitles, {"lines": self.join.join(lines)}) if lines else ""
        return _filled(
            self.text,
            {
                "question": question.text,
                "options": options,
                "subtitles": subtitles,
                "frames": str(frames),
                "times": ", ".join(str(round(time, 4)) for time in times),
            },
        )

    def subtitle_line(self, line: SubtitleLine) -> str:
        """A subtitle line as the prompt shows it."""
        times = (line.start, line.end)
        # In whole milliseconds, as subtitle files have them.
        start, end = (
            str(round(time, 3)) if self.decimals is None else f"{time:.{self.decimals}f}" for time in times
        )
        return _filled(self.line, {"text": line.text, "start": start, "end": end})

    def unknown_slots(self) -> list[str]:
        """Words in braces in `text` that are no slots, and would be shown as they are."""
        return [slot for slot in re.findall(r"\{(\w+)\}", self.text) if slot not in SLOTS]


def _filled(template: str, values: Mapping[str, str]) -> str:
    # In one pass: braces in a question or in a JSON example are not slots.
    return re.sub(r"\{(\w+)\}", lambda slot: values.get(slot[1], slot[0]), template)


@dataclass(frozen=True)
class JudgePrompt:
    """The prompt with which a judge model grades an open answer. `text` has the slots {question},
    {reference} and {answer}; grades are whole numbers from `low` to `high`."""

    source: str
    system: str
    """The system turn; empty: none."""
    text: str
    low: int = 0
    high: int = 3
    style: Literal["vlmevalkit", "cgbench"] = "vlmevalkit"
    """Whose code reads answers and grades officially: see `videopro.runs.grading`."""
    unsure: int | None = None
    """The grade at which the judge is asked again, with the frames of the clue; None: it never is."""
    look: str = ""
    """The user turn of that second question, with the slots {question}, {answer}, {frames} (their number) and
    {times} (in seconds); its grades are 0 and 1."""

    def fill(self, question: str, reference: str, answer: str) -> str:
        """The user turn of the prompt."""
        return _filled(self.text, {"question": question, "reference": reference, "answer": answer})

    def fill_look(self, question: str, answer: str, times: Sequence[float]) -> str:
        """The user turn of the second question, about frames at `times` (s)."""
        seconds = ", ".join(str(round(time, 4)) for time in times)
        values = {"question": question, "answer": answer, "frames": str(len(times)), "times": seconds}
        return _filled(self.look, values)


@dataclass(frozen=True)
class Metric:
    """A number that a benchmark reports; `videopro.benchmarks.metrics` computes each kind."""

    name: str
    kind: Literal[
        "accuracy", "macro", "set", "iou", "recall_at_iou", "accuracy_at_iou", "grounding", "grade", "judged"
    ] = "accuracy"
    """accuracy: of the questions. macro: mean of the groups' accuracies. set: mean score of sets of questions
    (`videopro.benchmarks.metrics`). iou, recall_at_iou, accuracy_at_iou: of the intervals that
    retrieval returned (CG-Bench). grounding: of those that the reply names. grade: mean grade of a judge."""
    over: str = ""
    """Kind of group, such as "task"."""
    of: tuple[str, ...] = ()
    """The groups of that kind to include; empty: all of them."""
    at: float | None = None
    """For grounding: the share of questions with an IoU of at least this; None: the mean IoU."""


def counts(metric: Metric, groups: Mapping[str, str]) -> bool:
    """Whether a question of these groups counts in a metric."""
    return not metric.of or any(
        name in metric.of for name in groups.get(metric.over, "").split(GROUP_SEPARATOR)
    )


@dataclass(frozen=True)
class Protocol:
    """How a benchmark is asked and scored; part of a run's key."""

    parser: str
    """Name of the official answer parser: ROBUST, a key of `videopro.question.OFFICIAL_EXTRACTORS`, or one of
    the benchmark's own (`BenchmarkSpec.parsers`)."""
    prompt: str = "multiple_choice"
    """Name of the answer prompt in `videopro.question.prompts` that is used if there is no
    `answer_prompt`."""
    official_unparsed: Literal["wrong", "left out"] = "wrong"
    """How a reply counts that the official parser cannot read: wrong, or not at all."""
    name: str = ""
    """Name for `--protocol`."""
    answer_prompt: AnswerPrompt | None = None
    """The benchmark's own prompt for the direct question; None: ours. Program modules use our prompts."""
    reply: Literal["letter", "text", "intervals"] = "letter"
    """How the direct answer is read. letter: from the distribution over its first token. text: from a written
    reply, which the official parser reads too. intervals: from a written reply that names parts of the video
    (CG-Bench, temporal grounding)."""
    reply_tokens: int = 256
    """Maximum length of a written reply, in tokens."""
    subtitles: Literal[LineRule, "offered"] = "offered"
    """none: no method gets subtitles. offered: each method uses the listed ones according to its settings.
    The others are what the direct prompt shows."""
    sampling: SampleRule = "midpoints"
    """Which frames the direct question shows: see `videopro.video.frame_times`."""
    fps: float | None = None
    """At most so many frames per second of video; None: as many as the model takes."""
    max_frames: int | None = None
    """At most so many frames; None: as many as the model takes."""
    asks: Literal["choices", "open"] = "choices"
    """Whether a multiple-choice question is asked with its options, or without them, to be answered in
    words."""
    shown: Literal["video", "clues"] = "video"
    """Which part of the video is shown: all of it, or only the intervals with the clue (CG-Bench)."""
    groups: tuple[str, ...] = ("family", "duration")
    """The groups that the benchmark reports; others are in the summary only."""
    metrics: tuple[Metric, ...] = ()
    """Metrics reported besides accuracy, under the benchmark's names."""
    judge: JudgePrompt | None = None
    """How open answers are graded."""

    def identity(self) -> dict[str, Any]:
        """What a run's key hashes."""
        return asdict(self)

    @classmethod
    def from_identity(cls, recorded: Mapping[str, Any]) -> Protocol:
        """The protocol recorded in a run folder. Raises BenchmarkError if it is invalid."""
        try:
            # What is no field is left out: a run records its benchmark and split beside its protocol.
            return _recorded().validate_python(dict(recorded))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise BenchmarkError(f"the recorded protocol cannot be read: {field}: {first['msg']}") from error


# When it is first needed: most commands read no recorded protocol, and it takes a moment to build.
@cache
def _recorded() -> TypeAdapter[Protocol]:
    return TypeAdapter(Protocol)


def protocol_problems(protocol: Protocol) -> Iterator[str]:
    """What is wrong in a protocol, each with the fix."""
    yield from _unknown_values(protocol, "")
    for name, kind, element in (("groups", "texts", str), ("metrics", "Metric(...)", Metric)):
        yield from _not_a_tuple(getattr(protocol, name), name, kind, element)
    for name, prompt in (("answer_prompt", AnswerPrompt), ("judge", JudgePrompt)):
        value = getattr(protocol, name)
        if not (value is None or isinstance(value, prompt)):
            yield f"{name} is {value!r}; it must be {prompt.__name__}(...)"
    if isinstance(protocol.answer_prompt, AnswerPrompt):
        for slot in protocol.answer_prompt.unknown_slots():
            yield f"the prompt has no slot {{{slot}}}; {did_you_mean(slot, SLOTS)}"
    for metric in protocol.metrics if isinstance(protocol.metrics, tuple) else ():
        if isinstance(metric, Metric):
            yield from _metric_problems(metric, has_judge=protocol.judge is not None)


def _metric_problems(metric: Metric, *, has_judge: bool) -> Iterator[str]:
    where = f"metric {metric.name!r}: "
    yield from _unknown_values(metric, where)
    yield from _not_a_tuple(metric.of, f"{where}of", "texts", str)
    if metric.kind in ("grade", "judged") and not has_judge:
        yield f"{where}is of a judge's grades; give the protocol a judge"
    if metric.at is not None and metric.kind != "grounding":
        yield f"{where}at is {metric.at!r}; only a metric of kind 'grounding' has one"
    if (metric.of or metric.kind == "macro") and not metric.over:
        yield f"{where}needs over, the kind of its groups"


def _unknown_values(value: Protocol | Metric, where: str) -> Iterator[str]:
    for name, choices in _CHOICES[type(value)].items():
        setting = getattr(value, name)
        if setting not in choices:
            yield f"{where}{name} is {setting!r}; {did_you_mean(str(setting), choices)}"


def _choices(kind: type) -> Mapping[str, tuple[str, ...]]:
    """The fields of a class that take one of several values, with these."""
    hints = get_type_hints(kind).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}


# Looked up once: a benchmark's own parser checks a protocol for each reply.
_CHOICES = {kind: _choices(kind) for kind in (Protocol, Metric)}


def _not_a_tuple(value: object, name: str, kind: str, element: type) -> Iterator[str]:
    if not isinstance(value, tuple) or not all(isinstance(entry, element) for entry in value):
        yield f"{name} is {value!r}; it must be a tuple of {kind}, such as (x,) for one"
