"""What a program's module calls may raise, and what that means for the question.

A call that cannot be served is the program's failure, which it may catch and a refinement may mend: it asked
for what cannot be done. Only if the question fails without a program too, it is not the program's doing, and
ends the question. So no program can take its question out of a run's denominator, or out of a batch of
rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from videopro.backbones import check_alive
from videopro.errors import (
    QUESTION_ERRORS,
    BackboneError,
    ExceptionRecord,
    NativeError,
    VideoProError,
    is_machines,
    record_exception,
    unexpected_as,
)
from videopro.executor import BudgetExceeded
from videopro.methods.base import Observer
from videopro.modules import CallError, ModuleError, ModuleLibrary
from videopro.question import Question

MOST_EXCEPTIONS = 10
"""Kinds of exceptions that are recorded of one program, each with a traceback of thousands of characters."""


class MachineFailed(Exception):
    """A module call met an error of the machine, which ends the run: `error`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class CallGuard:
    """The functions of one program's library, with what they raise sorted.

    They raise ModuleError for what the program may mend, one of QUESTION_ERRORS for what shows without it,
    other VideoProErrors and BudgetExceeded as they are, and MachineFailed.
    """

    def __init__(self, library: ModuleLibrary, question: Question, observer: Observer | None) -> None:
        self._library = library
        self._question = question
        self._observer = observer
        self._exceptions: dict[tuple[str, str], ExceptionRecord] = {}
        self._further: set[tuple[str, str]] = set()
        self._works_natively = False
        self._refusals = 0
        self._unchecked: BackboneError | None = None

    @property
    def exceptions(self) -> tuple[ExceptionRecord, ...]:
        """What nobody foresaw in the calls so far, each kind once: the first MOST_EXCEPTIONS."""
        return tuple(self._exceptions.values())

    @property
    def further_exceptions(self) -> int:
        """How many kinds there were beside these."""
        return len(self._further)

    def settle(self) -> None:
        """Call when the program has ended. Raises BackboneError if the model failed meanwhile."""
        if self._unchecked is not None:
            self._check_alive(self._unchecked)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The guarded functions by name."""
        return {name: self._guarded(name, call) for name, call in self._library.functions().items()}

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
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
                self._keep(record)
                self._refuse(name, error, f"{record.type}: {record.message}")
            finally:
                if self._observer is not None:
                    self._observer.on_call(self._library.calls[-1])

        return call

    def _refuse(self, name: str, error: Exception, reason: str) -> NoReturn:
        """Raise what a call raises that could not be served for this reason."""
        try:
            if isinstance(error, BackboneError):
                self._count_refusal(error)
            native_error = None if self._works_natively else _fails_natively(self._library, self._question)
        except VideoProError:
            raise
        except Exception as failed:
            raise MachineFailed(failed) from error
        if native_error is not None:
            raise native_error from error
        self._works_natively = True
        raise CallError(f"{name}() could not be served: {reason}") from error

    def _keep(self, record: ExceptionRecord) -> None:
        if record.key in self._exceptions or len(self._exceptions) < MOST_EXCEPTIONS:
            self._exceptions.setdefault(record.key, record)
        else:
            self._further.add(record.key)

    def _count_refusal(self, error: BackboneError) -> None:
        """Raise the error if the model serves nothing at all: the look without a program does not tell, since
        what it answered earlier is kept. A program may have its requests refused hundreds of times, so the
        model is asked after the 1st, 2nd, 4th, 8th, ... of them, and when the program has ended."""
        self._refusals += 1
        self._unchecked = error
        if self._refusals & (self._refusals - 1) == 0:
            self._check_alive(error)

    def _check_alive(self, error: BackboneError) -> None:
        self._unchecked = None
        try:
            check_alive(self._library.context.backbone, str(error))
        except BackboneError:
            raise error from None


def ask_natively(library: ModuleLibrary, question: Question, observer: Observer | None = None) -> Any:
    """The value of the native program: a single look at the whole video. Raises one of QUESTION_ERRORS,
    NativeError for an exception that nobody foresaw, and the machine's errors."""
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
