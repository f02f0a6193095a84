"""Runs programs on questions with the modules of their video, one at a time or in parallel.

A module call that cannot be served is the program's failure, which it may catch and a refinement may mend: it
asked for what cannot be done. Only if the question fails without a program too, it is not the program's
doing, and ends the question. So no program can take its question out of a run's denominator, or out of a
batch of rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal, NoReturn, TypeVar

from videopro.backbones import check_alive, sharing_gpu
from videopro.backbones.wrappers import Meter, QuestionBudget, ThreadMeter
from videopro.errors import (
    QUESTION_ERRORS,
    BackboneError,
    BudgetExceeded,
    ConfigError,
    ExceptionRecord,
    Failure,
    NativeError,
    VideoProError,
    carrying_cancellation,
    is_machines,
    record_exception,
    unexpected_as,
)
from videopro.executor import (
    Limits,
    Outcome,
    Program,
    ZygoteGone,
    calling_line,
    run,
    use_frames,
)
from videopro.methods.base import Observer
from videopro.methods.program.deciding import REASONED, OtherVideos, controls, reasoned_confidence
from videopro.modules import (
    CallError,
    ModelError,
    ModuleError,
    ModuleLibrary,
    VideoContext,
    available_modules,
)
from videopro.modules.calls import AnswerHandle, read_open_answer, read_program_answer
from videopro.question import Answer, Question
from videopro.traces import Cost, Execution, ReasonedRule

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")

NO_PROGRAM = "NoProgram"
# "video_path" is the release's name for "video".
INPUTS = ("video", "video_path", "question", "choices", "duration")
"""Names that are defined in a program, and the parameters that its `execute_command` may have."""
MOST_EXCEPTIONS = 10
"""Kinds of exceptions that are recorded of one program, each with a traceback of thousands of characters."""


class MachineFailed(Exception):
    """A module call met an error of the machine, which ends the run: `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


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
    budget: QuestionBudget | None = None,
    controlled: bool = False,
) -> tuple[Execution, str]:
    """Run a program on this thread. Returns its execution, and the log for a refinement prompt.

    `thread_meter` is the meter of the context's backbone. `reasoned`: what makes the confidence of a letter
    that comes straight from no call. `others`: what is known of other videos, with which such a letter is
    controlled; the program's calls are added to it. `budget`: the question's; None: no limit. `controlled`:
    whether the program is also replayed for `Execution.controls`. A failed program has an execution too: also
    one whose request the video, a model or a library could not serve, or whose budget is spent. Raises
    VideoProError for an error that shows without a program and for one of the sandbox, and the machine's
    errors.
    """
    if not program.code.strip():
        error = Failure(
            NO_PROGRAM, "The reply holds no program.", log=f"{NO_PROGRAM}: {' '.join(program.faults)}"
        )
        execution, log = Execution("failed", error=error), error.log
        if observer is not None:
            observer.on_execution(execution)
        return execution, log

    budget = budget or QuestionBudget()

    def attempt() -> tuple[ModuleLibrary, CallGuard, Outcome, Cost]:
        library = ModuleLibrary(context, use_frames=use_frames, line=calling_line, question=question)
        guard, meter = CallGuard(library, question, observer, budget), Meter(budget)
        with thread_meter.into(meter):
            try:
                functions, inputs = guard.functions(), _inputs(library, question)
                within = _within(limits, budget)
                outcome = run(program.code, functions, inputs, within, library.prelude, fatal=_FATAL)
            except MachineFailed as failed:
                raise failed.error from None
            guard.settle()
        return library, guard, outcome, _cost(meter, library)

    try:
        library, guard, outcome, cost = attempt()
    except ZygoteGone:
        # The executor does not re-run a program that has called a function. Modules have no side effects and
        # cache their results, so here it is safe. Otherwise one process killed for lack of memory would end a
        # training.
        library, guard, outcome, cost = attempt()
    if others is not None:
        others.add(library)
    answer, claim, how = Answer(), None, None
    status: Literal["ok", "empty", "failed"] = "failed"
    if outcome.status != "failed":
        answer, claim = _read(outcome.value, question, library.answers)
        status = answer_status(answer, question)
        # A letter straight from a call has that call's confidence.
        if reasoned != "none" and answer.letter is not None and answer.confidence == 0:
            inputs = _inputs(library, question)
            confidence, how = reasoned_confidence(
                *(program, question, library, inputs, answer.letter, reasoned),
                *(_within(limits, budget), outcome, others),
            )
            answer = replace(answer, confidence=confidence)
    execution = Execution(
        status,
        answer,
        claim,
        outcome.error,
        calls=tuple(library.calls),
        cost=cost,
        exceptions=tuple(guard.exceptions.values())[:MOST_EXCEPTIONS],
        further_exceptions=max(0, len(guard.exceptions) - MOST_EXCEPTIONS),
        reasoned=how,
    )
    if controlled:
        asked = _inputs(library, question)
        found = controls(program, question, library, asked, execution, _within(limits, budget), outcome)
        execution = replace(execution, controls=found)
    if observer is not None:
        observer.on_execution(execution)
    if outcome.error is not None and outcome.error.type == "NameError":
        # A planner that was not shown what there is, or calls by heart what is absent here, learns it now.
        there = [each.name for each in available_modules(context, is_open=question.is_open)]
        if any(name not in there for name in program.calls):
            # With their brackets they are names, which `--rename-modules` renames in rows, and not words.
            return execution, f"{outcome.log}\navailable functions: {'(), '.join(there)}()"
    if status != "empty":
        return execution, outcome.log
    # The program ran to its end, so nothing else in its log says what was wrong to a refinement.
    fault = f"what it returned names no option: {answer.raw!r}" if answer.raw else "it returned nothing"
    return execution, f"The program gave no answer: {fault}\n{outcome.log}".rstrip()


def _within(limits: Limits, budget: QuestionBudget) -> Limits:
    """The limits, as far as the question's time allows."""
    # Above 0, as limits are.
    return replace(limits, wall_seconds=max(1e-3, min(limits.wall_seconds, budget.seconds_left)))


def _inputs(library: ModuleLibrary, question: Question) -> dict[str, Any]:
    video = library.video
    values = (video, video, question.text, list(question.choices), library.context.video.duration)
    return dict(zip(INPUTS, values, strict=True))


def answer_natively(
    question: Question,
    context: VideoContext,
    *,
    thread_meter: ThreadMeter,
    observer: Observer | None = None,
    budget: QuestionBudget | None = None,
) -> Execution:
    """The direct answer of the native program, without a program, for which nothing of the `budget` is kept
    back. Raises one of QUESTION_ERRORS, and the machine's errors."""
    library = ModuleLibrary(context, question=question)
    meter = Meter(budget)
    with thread_meter.into(meter), meter.budget.last():
        value = ask_natively(library, question, observer)
    answer, claim = _read(value, question, library.answers)
    return Execution(
        answer_status(answer, question), answer, claim, calls=tuple(library.calls), cost=_cost(meter, library)
    )


def run_parallel(
    items: Sequence[TaskT], work: Callable[[TaskT], ValueT], at_once: int
) -> list[ValueT | VideoProError]:
    """What `work` returned for each item, in order, or the error in QUESTION_ERRORS that it raised:
    unexpected exceptions are among them.

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


def answer_status(answer: Answer, question: Question) -> Literal["ok", "empty"]:
    """Whether there is an answer: a letter, or words to an open question."""
    is_answered = bool(answer.raw.strip()) if question.is_open else answer.letter is not None
    return "ok" if is_answered else "empty"


def _cost(meter: Meter, library: ModuleLibrary) -> Cost:
    cost = meter.take()
    # The frames of a cached call were counted by the first call.
    frames = sum(len(call.frames) for call in library.calls if not call.cached)
    return cost + Cost(stages={"run": cost.seconds}, frames=frames)


# ---- what calls may raise ----------------------------------------------------------------------------------


class CallGuard:
    """The functions of one program's library, with what they raise sorted.

    They raise ModuleError for what the program may mend, one of QUESTION_ERRORS for what shows without it,
    other VideoProErrors and BudgetExceeded unchanged, and MachineFailed.
    """

    def __init__(
        self, library: ModuleLibrary, question: Question, observer: Observer | None, budget: QuestionBudget
    ) -> None:
        self._budget = budget
        self._library = library
        self._question = question
        self._observer = observer
        self.exceptions: dict[tuple[str, str], ExceptionRecord] = {}
        """Unexpected exceptions in the calls so far, each kind once."""
        self._works_natively = False
        self._refusals = 0
        self._unchecked: BackboneError | None = None

    def settle(self) -> None:
        """Raise BackboneError if the model serves nothing since its latest refusal. Call when the program has
        ended."""
        error, self._unchecked = self._unchecked, None
        if error is not None:
            try:
                check_alive(self._library.context.backbone, str(error))
            except BackboneError:
                raise error from None

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The guarded functions by name."""
        return {name: self._guarded(name, call) for name, call in self._library.functions().items()}

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            # Searches, detectors and trackers ask no model, and take time too.
            self._budget.check(0)
            try:
                return function(*args, **keywords)
            except QUESTION_ERRORS as error:
                self._refuse(name, error, f"{type(error).__name__}: {error}")
            except (VideoProError, BudgetExceeded):
                raise
            except Exception as error:
                if is_machines(error):
                    raise MachineFailed(error) from error
                record = record_exception(error)
                self.exceptions.setdefault(record.key, record)
                self._refuse(name, error, f"{record.type}: {record.message}")
            finally:
                if self._observer is not None:
                    self._observer.on_call(self._library.calls[-1])

        return call

    def _refuse(self, name: str, error: Exception, reason: str) -> NoReturn:
        """Raise what a call raises that could not be served for this reason."""
        try:
            if isinstance(error, BackboneError):
                # The look without a program does not tell whether the model serves anything at all, since
                # what it answered earlier is kept. A program may have its requests refused hundreds of times,
                # so the model is asked after the 1st, 2nd, 4th, 8th, ... of them, and at the end.
                self._refusals += 1
                self._unchecked = error
                if self._refusals & (self._refusals - 1) == 0:
                    self.settle()
            native_error = None if self._works_natively else _fails_natively(self._library, self._question)
        except (VideoProError, BudgetExceeded):
            raise
        except Exception as failed:
            raise MachineFailed(failed) from error
        if native_error is not None:
            raise native_error from error
        self._works_natively = True
        raise CallError(f"{name}() could not be served: {reason}") from error


def ask_natively(library: ModuleLibrary, question: Question, observer: Observer | None = None) -> Any:
    """The value of the native program: a single look at the whole video. Raises one of QUESTION_ERRORS,
    NativeError for an unexpected exception, and the machine's errors."""
    query = library.functions()["query_native"]
    try:
        with unexpected_as(NativeError):
            return query(
                library.video, question.text, *([] if question.is_open else [list(question.choices)])
            )
    finally:
        if observer is not None:
            observer.on_call(library.calls[-1])


def _fails_natively(library: ModuleLibrary, question: Question) -> VideoProError | None:
    """The error with which the question fails without a program; None if it does not. Costs an answer, unless
    that is known already. Raises the machine's errors."""
    # Another library: the look is none of the program's calls, and takes nothing of its budget of frames.
    native = ModuleLibrary(library.context, question=question)
    try:
        return error_of_look(lambda: ask_natively(native, question))
    except ModuleError:
        # The run is without the module.
        return None


def error_of_look(look: Callable[[], object]) -> VideoProError | None:
    """The error in QUESTION_ERRORS with which a look at the video without a program or an agent fails; None
    if it does not. Raises other VideoProErrors and the machine's errors."""
    try:
        with unexpected_as(NativeError):
            look()
    except QUESTION_ERRORS as error:
        return error
    return None
