"""The trace of a question as one JSON line: the record that scoring, reports, synthesis and rewards read.

Frames are references, never pixels. `videopro.traces.log` stores the lines of a run. Raise `SCHEMA` whenever
the meaning of a field changes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from videopro.errors import QUESTION_ERRORS, ExceptionRecord, Failure, RunError, UnexpectedError
from videopro.question import LETTERS, Answer, right_letters
from videopro.storage import LINE_BYTES, first_mistake, parse_json
from videopro.traces.prompts import Prompt
from videopro.traces.steps import Call, Cost, Preparation, Step, moment, wanted_time

SCHEMA = 5

FALLBACK = "fallback"
"""The prompt kind of the direct answer that is requested if no program or agent gave an answer."""
AGENT = "agent"
"""The prompt kind of the round that holds an agent's steps."""
FORCED = "the answer was forced"
"""Part of the note of a question whose agent was forced to answer, as its budget or last round was spent."""

CUT_OFF = "cut off"
"""The note of a reply that the token limit ended: "after 1024 tokens"."""
THOUGHTS = "thoughts"
"""The note with a model's thoughts before its reply."""

NO_SUBTITLES = "no subtitles"
"""The note of a question that was to be answered with subtitles, and whose video has none."""

REDONE = "answered again, as its video, subtitles or transcript had changed"
"""The note of a question that --redo-changed asked again."""


# pydantic's parser refuses a byte order mark and half of a surrogate pair, which `parse_json` reads. It takes
# the last of equal keys and numbers beyond every bound, which `parse_json` refuses; so both read a line.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAY_BE_SURROGATE = re.compile(rb"\\u[dD]")


class UnstorableTrace(RunError):
    """A trace with a value that cannot be stored."""


class LaterSchema(RunError):
    """A trace written by a later version, whose fields may mean something else."""


@dataclass(frozen=True)
class StandIn:
    """An intact frame that was shown in place of a damaged one."""

    where: str
    """What it was shown to: "round 1, call 2 query_mc"."""
    wanted: float
    """The time asked for, in s."""
    given: float
    """The time of the intact frame, in s."""

    def __str__(self) -> str:
        times = f"the frame at {self.given:.2f} s stood in for the damaged one at {self.wanted:.2f} s"
        return f"{self.where}: {times}"


CombiningRule = Literal["product", "least"]
"""How the confidences of the calls that decided a letter make its own."""
ReasonedRule = Literal[CombiningRule, "none"]
"""How to compute the confidence of a letter that no call returned directly; none: a guess, with 0."""


@dataclass(frozen=True)
class DecidingCalls:
    """A call that decided a letter, or several that decided it together."""

    calls: tuple[int, ...]
    """Indices in `Execution.calls`; of equal calls the first."""
    confidence: float | None
    """None: the result has no confidence, as for a search."""


@dataclass(frozen=True)
class Reasoned:
    """How the confidence of a letter came about that a program reasoned from what its calls returned."""

    rule: CombiningRule
    deciding: tuple[DecidingCalls, ...] = ()
    replays: int = 0
    """How often the program was run again to find them."""
    why_guess: str = ""
    """The reason why no call decided, for a letter that stays a guess."""


@dataclass(frozen=True)
class Control:
    """What the question's answer became when it was asked again with a part of the evidence."""

    letter: str | None = None
    failure: str = ""
    """Why it could not be asked again."""


@dataclass(frozen=True)
class Execution:
    """The outcome of a round: of a program, of an agent's steps, or of the backbone's direct answer."""

    status: Literal["ok", "failed", "empty"]
    answer: Answer = field(default_factory=Answer)
    """The answer; without a letter if there is none, and for an open question, whose answer is its `raw`. Its
    confidence is 0.0 unless calls of modules gave it or decided it."""
    claim: float | None = None
    """The confidence that a program or an agent claimed for itself."""
    error: Failure | None = None
    calls: tuple[Call, ...] = ()
    """The calls of a program."""
    cost: Cost = field(default_factory=Cost)
    steps: tuple[Step, ...] = ()
    """The steps of an agent."""
    cites: tuple[int, ...] | None = None
    """Indices in `steps` of those that an agent's answer rests on; None: its method does not tell."""
    exceptions: tuple[ExceptionRecord, ...] = ()
    """Unexpected exceptions in its calls, each kind once: libraries' exceptions about their data, or bugs of
    VideoPro. Of many kinds the first."""
    further_exceptions: int = 0
    """The number of further kinds."""
    reasoned: Reasoned | None = None
    """Of a letter that came straight from no call, how its confidence came about; None for any other answer,
    and in traces of versions that gave such letters the confidence 0."""
    controls: Mapping[str, Control] = field(default_factory=dict)
    """By "without" and "alone", the answers without what the answer cites, and with that alone; empty: not
    asked for (`--controls`)."""


@dataclass(frozen=True)
class Round:
    """One round of reasoning: the prompt kind, the model's reply, and the outcome of running it."""

    prompt_kind: str
    """ "native" for a direct answer; for a program, one of `PromptKind`; AGENT for
    all the steps of an agent; FALLBACK for the direct answer where none of these gave one."""
    raw: str
    """The model's reply without its thoughts, which are among the notes (of one beyond a million characters
    the first million)."""
    program: str | None = None
    execution: Execution | None = None
    mode: Literal["native", "program"] | None = None
    """How the program reasons; None if no program was written."""
    faults: tuple[str, ...] = ()
    """Why the reply is not well-formed; empty when it is."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """The planner's notes about its reply, such as the fault that a teacher put into it. For reports only: no
    later prompt shows them."""
    planning: Cost = field(default_factory=Cost)
    """The cost of generating the reply; the cost of running it is `execution.cost`."""
    refines: int | None = None
    """Index in `rounds` of the round that it refines, if several were refined (synthesis); None: it refines
    no round, or the previous one."""
    prompt: Prompt | None = None
    """The prompt; None for an agent's round, whose steps have their prompts, and in traces of schema 4 and
    older."""
    stand_ins: tuple[tuple[float, float], ...] = ()
    """Frames shown to a planner in place of damaged ones: (requested time, time of the frame) in s."""


@dataclass(frozen=True)
class Result:
    """The result of a question: an answer (`final`, perhaps without a letter) or an error, never neither."""

    rounds: tuple[Round, ...] = ()
    first: Answer | None = None
    """The answer before any refinement."""
    final: Answer | None = None
    """The final answer; None only if there is an `error`."""
    selected: int | None = None
    """Index in `rounds` of the final answer; None without rounds. Later rounds were stored for other
    thresholds (`refine_below`), or gave nothing better."""
    refined: int = 0
    """Number of refinements under the run's own settings."""
    error: Failure | None = None
    """Why there is no answer: a broken video, a request that could not be served, a worker that died."""
    notes: tuple[str, ...] = ()
    """Notes on the result, such as subtitles that the benchmark does not have."""
    cost: Cost = field(default_factory=Cost)
    prepared: tuple[Preparation, ...] = ()
    """Preparations made for many questions and used by this one."""
    ended_by: ExceptionRecord | None = None
    """The unexpected exception that ended the question, as its `error`."""

    @property
    def exceptions(self) -> tuple[ExceptionRecord, ...]:
        """All unexpected exceptions while the question was answered, each kind once."""
        exceptions = [self.ended_by] if self.ended_by is not None else []
        for round in self.rounds:
            exceptions += round.execution.exceptions if round.execution is not None else ()
        return tuple({exception.key: exception for exception in reversed(exceptions)}.values())

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of an agent, in order; empty for other methods."""
        return tuple(
            step for round in self.rounds if round.execution is not None for step in round.execution.steps
        )

    @property
    def stand_ins(self) -> tuple[StandIn, ...]:
        """Each use of an intact frame in place of a damaged one, in what answered this question and in what
        was prepared for it."""
        found: list[StandIn] = []
        for each in self.prepared:
            found += [StandIn(each.kind, wanted, given) for wanted, given in each.stand_ins]
        for number, round in enumerate(self.rounds, 1):
            found += [StandIn(f"round {number}", wanted, given) for wanted, given in round.stand_ins]
            if round.execution is None:
                continue
            looks = [(f"call {n} {call.fn}", call.frames) for n, call in enumerate(round.execution.calls, 1)]
            looks += [
                (f"step {n} {each.kind}", each.frames) for n, each in enumerate(round.execution.steps, 1)
            ]
            for name, frames in looks:
                wanted_times = ((frame, wanted_time(frame)) for frame in frames)
                found += [
                    StandIn(f"round {number}, {name}", wanted, moment(frame))
                    for frame, wanted in wanted_times
                    if wanted is not None
                ]
        return tuple(found)

    @property
    def frames_seen(self) -> int:
        """How many different moments of the video the calls and steps of this question looked at; a crop
        counts as its frame. These are the observed frames of VideoAgent's and VCA's tables."""
        executions = [round.execution for round in self.rounds if round.execution is not None]
        looks = [call.frames for execution in executions for call in execution.calls]
        looks += [step.frames for execution in executions for step in execution.steps]
        return len({moment(frame) for frames in looks for frame in frames})


def failed_result(error: Exception, rounds: tuple[Round, ...] = ()) -> Result:
    """The result of a question that could not be answered; `error` is one of QUESTION_ERRORS."""
    # The base class, not a subclass: scoring decides by this name what leaves a denominator.
    kind = next(base for base in QUESTION_ERRORS if isinstance(error, base))
    record = error.record if isinstance(error, UnexpectedError) else None
    log = "" if record is None else record.traceback
    return Result(rounds, error=Failure(kind.__name__, str(error), log=log), ended_by=record)


@dataclass(frozen=True)
class VideoRef:
    """The video of a question. `id` is empty and `duration` 0 if it could not be opened."""

    path: str
    key: str
    """The benchmark's name for the video; confidence intervals are clustered by it."""
    id: str = ""
    """Hash of the content."""
    duration: float = 0.0
    """Seconds."""
    subtitles: str | None = None
    """The subtitle file that was read; empty: none is listed; None: a method that reads none."""
    text_id: str = ""
    """Hash of that file's content, or of the lines of a transcript; empty: neither was read."""

    def contents(self) -> dict[tuple[str, str], str]:
        """The hashes of what was seen and read, by the video's key and what it is."""
        ids = {(self.key, "video"): self.id, (self.key, self.subtitles or "transcript"): self.text_id}
        return {what: content for what, content in ids.items() if content}


@dataclass(frozen=True)
class SetMember:
    """The place of a question in a set of questions that are scored together."""

    set: str
    """The set's name."""
    place: int
    """From 1."""
    size: int
    """Number of questions in the set."""
    chain: tuple[int, ...] = ()
    """If each step builds on the one before: the number of questions on each level, such as (1, 2, 1)."""


@dataclass(frozen=True, kw_only=True)
class Trace(Result):
    """Everything that happened to a question, and everything needed to score it again: its result, the
    question, and the run."""

    schema: int
    run_key: str
    question_id: str
    video: VideoRef
    question: str
    choices: tuple[str, ...]
    gold: str | None
    """Letter of the right option; None if the benchmark keeps it secret, and for an open question; "-" if no
    option is right by its own annotation."""
    groups: Mapping[str, str] = field(default_factory=dict)
    official: str | None = None
    """The letter that the benchmark's official reader takes from `final.raw`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    """The reference answer with which an open answer is compared."""
    evidence: tuple[tuple[float, ...], ...] = ()
    """(start, end) in seconds of the intervals that hold the answer, if the benchmark gives them."""
    official_intervals: tuple[tuple[float, ...], ...] | None = None
    """The intervals that the benchmark's official reader takes from `final.raw`, if it asks for intervals;
    None if it reads none."""
    member: SetMember | None = None
    """The question's place in a set of questions that are scored together."""

    @property
    def lettered_choices(self) -> list[str]:
        """The options as "A. a cup"; none of an open question."""
        return [f"{letter}. {text}" for letter, text in zip(LETTERS, self.choices, strict=False)]

    @property
    def right(self) -> frozenset[str]:
        """The letters that are right; see `videopro.question.question.right_letters`."""
        return right_letters(self.gold, self.choices)

    def is_right(self, letter: str | None) -> bool:
        """Whether this is a right letter."""
        return letter in self.right

    def to_line(self) -> bytes:
        """One line of ASCII JSON with its newline, which `from_line` reads. Raises UnstorableTrace for a
        value that cannot be stored."""
        try:
            text = json.dumps(self, default=_as_mapping, allow_nan=False, separators=(",", ":"))
            if len(text) >= LINE_BYTES:
                raise ValueError(f"it has {len(text) >> 20:,} MiB, more than {LINE_BYTES >> 20}")
            read = parse_json(text)
            if "\\ud" in text:  # Perhaps a lone surrogate, which is not read as written.
                text = json.dumps(read, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError) as error:
            raise UnstorableTrace(
                f"question {self.question_id!r}: its trace cannot be written: {error}"
            ) from error
        return text.encode("ascii") + b"\n"

    def without_result(self, error: UnstorableTrace) -> Trace:
        """The trace of a question whose result cannot be stored: with the error instead."""
        failed = Result(error=Failure(type(error).__name__, str(error)))
        values = {entry.name: getattr(failed, entry.name) for entry in fields(Result)}
        return replace(self, **values, official=None, official_intervals=None)

    @classmethod
    def from_line(cls, line: bytes) -> Trace:
        """Read a line. Unknown fields are ignored, missing optional fields get their defaults. Raises
        LaterSchema for a trace of a later version, RunError for anything else that is not a trace."""
        try:
            content = parse_json(line)
        except ValueError as error:
            raise RunError(f"not JSON: {error}") from error
        if not isinstance(content, dict):
            raise RunError(f"not a trace but a {type(content).__name__}")
        schema = content.get("schema")
        if type(schema) is int and schema > SCHEMA:
            raise LaterSchema(
                f"written by a later version of videopro (schema {schema}; this one reads up to {SCHEMA})"
            )
        if line.startswith(_BYTE_ORDER_MARK) or _MAY_BE_SURROGATE.search(line):
            line = json.dumps(content).encode()
        try:
            trace = _reader().validate_json(line, strict=True)
        except ValidationError as error:
            raise RunError(f"trace.{first_mistake(error)}") from error
        # Schema 4 added the steps of agents and what was prepared for them, schema 5 the prompts of rounds;
        # older traces have none of these.
        trace = replace(trace, schema=SCHEMA)
        if trace.selected is not None and not 0 <= trace.selected < len(trace.rounds):
            raise RunError(f"trace.selected is {trace.selected}, but there are {len(trace.rounds)} rounds")
        return trace


def _as_mapping(record: Any) -> dict[str, Any]:
    """A record within a trace as JSON has it. Without the copies of `dataclasses.asdict`, which took longer
    than everything else about a trace. Raises TypeError for anything else."""
    if not dataclasses.is_dataclass(record):
        raise TypeError(f"a {type(record).__name__} is not JSON")
    return {name: getattr(record, name) for name in _names(record.__class__)}


@cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(cls))


@cache
def _reader() -> TypeAdapter[Trace]:
    # Built when the first trace is read: a command that reads none does not wait for it.
    return TypeAdapter(Trace)
