"""A benchmark's protocol as data: how questions are asked, how replies are parsed, what is reported.

Two runs are comparable only if their protocols are equal, so the protocol is part of a run's key. A run
folder stores it, so it can be scored again without the benchmark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from videopro.cli import did_you_mean
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.storage import first_mistake
from videopro.traces.scoring import GROUP_SEPARATOR
from videopro.video import LineRule, SampleRule, SubtitleLine

# The parser of a benchmark that publishes none: our own.
ROBUST = "robust"
# Python checks no types: a text in the place of a tuple would be taken for its letters.
_CHECKED = ConfigDict(strict=True, revalidate_instances="always")
# What an answer prompt may leave open.
SLOTS = ("question", "options", "subtitles", "frames", "times")


@dataclass(frozen=True)
class AnswerPrompt:
    """A benchmark's prompt. `text` has the slots {question}, {options}, {subtitles},
    {frames} (their number) and {times} (of the frames, in seconds).

    >>> AnswerPrompt("x", "{question}\\n{options}", option="({letter}) {text}").fill(
    ...     Question("Which?", ("a", "b")))
    'Which?\\n(A) a\\n(B) b'
    """

    __pydantic_config__ = _CHECKED

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
    """The separator of subtitle lines; it also follows each line between frames."""
    decimals: int | None = None
    """Decimals of {start} and {end}; None: as many as they have, at most three."""
    system: str = ""
    """The system turn; empty: the chat template's default, if it has one."""
    prefill: str = ""
    """The beginning of the reply, which the model continues. Official parsers do not see it."""

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
        """Words in braces in `text` that are not slots, and would be shown unchanged."""
        return [slot for slot in re.findall(r"\{(\w+)\}", self.text) if slot not in SLOTS]


def _filled(template: str, values: Mapping[str, str]) -> str:
    # In one pass: braces in a question or in a JSON example are not slots.
    return re.sub(r"\{(\w+)\}", lambda slot: values.get(slot[1], slot[0]), template)


@dataclass(frozen=True)
class JudgePrompt:
    """The prompt with which a judge model grades an open answer. `text` has the slots {question},
    {reference} and {answer}; grades are whole numbers from `low` to `high`."""

    __pydantic_config__ = _CHECKED

    source: str
    system: str
    """The system turn; empty: none."""
    text: str
    low: int = 0
    high: int = 3
    style: Literal["vlmevalkit", "cgbench"] = "vlmevalkit"
    """Whose code parses answers and grades officially; see `videopro.runs.grading`."""
    unsure: int | None = None
    """The grade that triggers a second request to the judge, with the frames of the clue; None: never."""
    look: str = ""
    """The user turn of that second request, with the slots {question}, {answer}, {frames} (their number) and
    {times} (in seconds); its grades are 0 and 1."""

    def fill(self, question: str, reference: str, answer: str) -> str:
        """The user turn of the prompt."""
        return _filled(self.text, {"question": question, "reference": reference, "answer": answer})

    def fill_look(self, question: str, answer: str, times: Sequence[float]) -> str:
        """The user turn of the second request, about frames at `times` (s)."""
        seconds = ", ".join(str(round(time, 4)) for time in times)
        values = {"question": question, "answer": answer, "frames": str(len(times)), "times": seconds}
        return _filled(self.look, values)


@dataclass(frozen=True)
class Metric:
    """A number that a benchmark reports; `videopro.benchmarks.metrics` computes each kind."""

    __pydantic_config__ = _CHECKED

    name: str
    kind: Literal[
        "accuracy", "macro", "set", "iou", "recall_at_iou", "accuracy_at_iou", "grounding", "grade", "judged"
    ] = "accuracy"
    """accuracy: of the questions. macro: mean of the groups' accuracies. set: mean score of sets of questions
    (`videopro.benchmarks.metrics`). iou, recall_at_iou, accuracy_at_iou: of the intervals that
    retrieval returned (CG-Bench). grounding: of the intervals in the reply. grade: mean grade of a judge."""
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

    __pydantic_config__ = _CHECKED

    parser: str
    """Name of the official answer parser: ROBUST, a key of `videopro.question.OFFICIAL_EXTRACTORS`, or one of
    the benchmark's parsers (`BenchmarkSpec.parsers`)."""
    prompt: str = "multiple_choice"
    """Name of the answer prompt in `videopro.question.prompts` that is used if there is no
    `answer_prompt`."""
    official_unparsed: Literal["wrong", "left out"] = "wrong"
    """How a reply counts if the official parser cannot parse it: wrong, or not at all."""
    name: str = ""
    """Name for `--protocol`."""
    answer_prompt: AnswerPrompt | None = None
    """The benchmark's own prompt for the direct question; None: the built-in one. Modules use built-in
    prompts."""
    reply: Literal["letter", "text", "intervals"] = "letter"
    """How the direct answer is parsed. letter: from the distribution over its first token. text: from a
    written reply, which the official parser parses too. intervals: from a written reply with parts of the
    video (CG-Bench, temporal grounding)."""
    reply_tokens: int = 256
    """Maximum length of a written reply, in tokens."""
    subtitles: Literal[LineRule, "offered"] = "offered"
    """none: no method gets subtitles. offered: each method uses listed subtitles according to its settings.
    The others specify what the direct prompt shows."""
    sampling: SampleRule = "midpoints"
    """Which frames the direct question shows: see `videopro.video.frame_times`."""
    fps: float | None = None
    """Maximum frames per second of video; None: as many as the model takes."""
    max_frames: int | None = None
    """Maximum number of frames; None: as many as the model takes."""
    asks: Literal["choices", "open"] = "choices"
    """Whether a multiple-choice question is asked with its options, or without them, to be answered in
    words."""
    shown: Literal["video", "clues"] = "video"
    """Which part of the video is shown: all of it, or only the intervals with the clue (CG-Bench)."""
    groups: tuple[str, ...] = ("family", "duration")
    """The groups that the benchmark reports; others are in the summary only."""
    metrics: tuple[Metric, ...] = ()
    """Metrics reported in addition to accuracy, under the benchmark's names."""
    judge: JudgePrompt | None = None
    """How open answers are graded."""

    def identity(self) -> dict[str, Any]:
        """What a run's key hashes."""
        return asdict(self)

    @classmethod
    def from_identity(cls, recorded: Mapping[str, Any]) -> Protocol:
        """The protocol recorded in a run folder. Raises BenchmarkError if it is invalid."""
        try:
            # Other keys are ignored: a run records its benchmark and split with its protocol.
            return _PROTOCOL.validate_json(json.dumps(recorded), strict=True)
        except ValidationError as error:
            raise BenchmarkError(f"the recorded protocol cannot be read: {first_mistake(error)}") from error


_PROTOCOL = TypeAdapter(Protocol)


def check_protocol(protocol: Protocol) -> None:
    """Raise BenchmarkError for a protocol that cannot work, which a user's file may define."""
    try:
        _PROTOCOL.validate_python(protocol)
    except ValidationError as error:
        raise BenchmarkError(first_mistake(error)) from None
    prompt = protocol.answer_prompt
    for slot in prompt.unknown_slots() if prompt is not None else ():
        raise BenchmarkError(f"the prompt has no slot {{{slot}}}; {did_you_mean(slot, SLOTS)}")
    for metric in protocol.metrics:
        where = f"metric {metric.name!r}"
        if metric.kind in ("grade", "judged") and protocol.judge is None:
            raise BenchmarkError(f"{where}: needs a judge's grades; add a judge to the protocol")
        if metric.at is not None and metric.kind != "grounding":
            raise BenchmarkError(f"{where}: at is {metric.at!r}; only metrics of kind 'grounding' have it")
        if (metric.of or metric.kind == "macro") and not metric.over:
            raise BenchmarkError(f"{where}: needs over, the kind of its groups")
