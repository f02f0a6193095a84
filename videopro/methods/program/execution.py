"""Runs programs on questions with the modules of their video, one at a time or in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from videopro.backbones import sharing_gpu
from videopro.backbones.wrappers import Meter, ThreadMeter
from videopro.errors import (
    QUESTION_ERRORS,
    ConfigError,
    Failure,
    VideoProError,
    carrying_cancellation,
    unexpected_as,
)
from videopro.executor import Limits, Outcome, Program, ZygoteGone, calling_line, run, use_frames
from videopro.methods.base import Observer
from videopro.methods.program.deciding import REASONED, OtherVideos, reasoned_confidence
from videopro.methods.program.guarding import CallGuard, MachineFailed, ask_natively
from videopro.modules import ModelError, ModuleLibrary, VideoContext
from videopro.modules.calls import AnswerHandle, read_open_answer, read_program_answer
from videopro.question import Answer, Question
from videopro.traces import Cost, Execution, Reasoned, ReasonedRule

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")

NO_PROGRAM = "NoProgram"
# "video_path" is the release's name for "video".
INPUTS = ("video", "video_path", "question", "choices", "duration")
"""Names that are defined in a program, and the parameters that its `execute_command` may have."""


# Errors that end a program even if it catches them: they are not its fault, and it gives no answer after one.
_FATAL = (*QUESTION_ERRORS, ConfigError, ModelError, MachineFailed)


def execute(
    program: Program,
    question: Question,
    context: VideoContext,
    *,
    limits: Limits,
    thread_meter: ThreadMeter,
    observer: Observer | None = None,
    reasoned: ReasonedRule = REASONED,
    others: OtherVideos | None = None,
) -> tuple[Execution, str]:
    """Run a program on this thread. Returns its execution, and the log for a refinement prompt.

    `thread_meter` is the meter of the context's backbone. `reasoned`: what makes the confidence of a letter
    that comes straight from no call. `others`: what is known of other videos, with which such a letter is
    controlled; the program's calls are added to it. A failed program has an execution too: also one whose
    request the video, a model or a library could not serve. Raises VideoProError for an error that shows
    without a program and for one of the sandbox, and the machine's errors.
    """
    if not program.code.strip():
        faults = " ".join(program.faults)
        error = Failure(NO_PROGRAM, "The reply holds no program.", log=f"{NO_PROGRAM}: {faults}")
        execution, log = Execution("failed", error=error), error.log
    else:
        attempt = partial(_run, program, question, context, limits, thread_meter, observer, reasoned, others)
        try:
            execution, log = attempt()
        except ZygoteGone:
            # The executor does not re-run a program that has called a function. Modules have no side effects
            # and cache their results, so here it is safe. Otherwise one process killed for lack of memory
            # would end a training.
            execution, log = attempt()
    if observer is not None:
        observer.on_execution(execution)
    return execution, log


def _run(
    program: Program,
    question: Question,
    context: VideoContext,
    limits: Limits,
    thread_meter: ThreadMeter,
    observer: Observer | None,
    reasoned: ReasonedRule,
    others: OtherVideos | None,
) -> tuple[Execution, str]:
    library = ModuleLibrary(context, use_frames=use_frames, line=calling_line, question=question)
    values = (library.video, library.video, question.text, list(question.choices), context.video.duration)
    inputs: Mapping[str, Any] = dict(zip(INPUTS, values, strict=True))
    guard = CallGuard(library, question, observer)
    meter = Meter()
    with thread_meter.into(meter):
        try:
            outcome = run(program.code, guard.functions(), inputs, limits, library.prelude, fatal=_FATAL)
        except MachineFailed as failed:
            raise failed.error from None
        guard.settle()
    if others is not None:
        others.add(library)
    if outcome.status == "failed":
        return Execution(
            "failed",
            error=outcome.error,
            calls=tuple(library.calls),
            cost=_cost(meter, library),
            exceptions=guard.exceptions,
            further_exceptions=guard.further_exceptions,
        ), outcome.log
    answer, claim = _read(outcome.value, question, library.answers)
    how: Reasoned | None = None
    # A letter straight from a call has that call's confidence.
    if reasoned != "none" and answer.letter is not None and answer.confidence == 0:
        confidence, how = reasoned_confidence(
            program, question, library, inputs, answer.letter, reasoned, limits, outcome, others
        )
        answer = replace(answer, confidence=confidence)
    execution = Execution(
        _status(answer, question),
        answer,
        claim,
        calls=tuple(library.calls),
        cost=_cost(meter, library),
        exceptions=guard.exceptions,
        further_exceptions=guard.further_exceptions,
        reasoned=how,
    )
    return execution, _answerless_log(outcome, execution)


def answer_natively(
    question: Question, context: VideoContext, *, thread_meter: ThreadMeter, observer: Observer | None = None
) -> Execution:
    """The direct answer of the native program, without a program. Raises one of QUESTION_ERRORS, and the
    machine's errors."""
    library = ModuleLibrary(context, question=question)
    meter = Meter()
    with thread_meter.into(meter):
        value = ask_natively(library, question, observer)
    answer, claim = _read(value, question, library.answers)
    return Execution(
        _status(answer, question), answer, claim, calls=tuple(library.calls), cost=_cost(meter, library)
    )


def run_parallel(
    items: Sequence[TaskT], work: Callable[[TaskT], ValueT], at_once: int
) -> list[ValueT | VideoProError]:
    """What `work` returned for each item, in order, or the error in QUESTION_ERRORS that it raised: an
    exception that nobody foresaw is one of them.

    At most `at_once` items run at the same time. Other VideoProErrors and the machine's errors are raised
    after the other items have finished.
    """

    def attempt(item: TaskT) -> ValueT | VideoProError:
        try:
            with unexpected_as():
                return work(item)
        except QUESTION_ERRORS as error:
            return error

    if len(items) <= 1:
        return [attempt(item) for item in items]
    with ThreadPoolExecutor(min(at_once, len(items)), initializer=sharing_gpu()) as threads:
        return list(threads.map(carrying_cancellation(attempt), items))


def _read(value: Any, question: Question, answers: Sequence[AnswerHandle]) -> tuple[Answer, float | None]:
    """The answer that a program returned, and the confidence that it claimed."""
    if question.is_open:
        return read_open_answer(value, answers)
    return read_program_answer(value, question, answers)


def _status(answer: Answer, question: Question) -> Literal["ok", "empty"]:
    is_answered = bool(answer.raw.strip()) if question.is_open else answer.letter is not None
    return "ok" if is_answered else "empty"


def _answerless_log(outcome: Outcome, execution: Execution) -> str:
    """The log of a program that ran to its end; its first line says so if there is no answer."""
    if execution.status == "ok":
        return outcome.log
    answer = execution.answer
    fault = f"what it returned names no option: {answer.raw!r}" if answer.raw else "it returned nothing"
    return f"The program gave no answer: {fault}\n{outcome.log}".rstrip()


def _cost(meter: Meter, library: ModuleLibrary) -> Cost:
    cost = meter.take()
    # The frames of a cached call were counted by the first call.
    frames = sum(len(call.frames) for call in library.calls if not call.cached)
    return cost + Cost(stages={"run": cost.seconds}, frames=frames)
