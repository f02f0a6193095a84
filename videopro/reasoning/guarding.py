"""What a program's module calls may raise, and what that means for the question.

A call that cannot be served is the program's failure, which it may catch and a refinement may mend: it asked
for what cannot be done. Only if the question fails without a program too, it is not the program's doing, and
ends the question. So no program can take its question out of a run's denominator, or out of a batch of
rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from videopro.errors import QUESTION_ERRORS, ExceptionRecord, NativeError, VideoProError
from videopro.executor import BudgetExceeded
from videopro.modules import CallError, ModuleError, ModuleLibrary
from videopro.question import Question
from videopro.reasoning.rounds import Observer
from videopro.unexpected import is_machines, record_exception, unexpected_as


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

    @property
    def exceptions(self) -> tuple[ExceptionRecord, ...]:
        """What nobody foresaw in the calls so far, each kind once."""
        return tuple(self._exceptions.values())

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
                self._exceptions.setdefault(record.key, record)
                self._refuse(name, error, f"{record.type}: {record.message}")
            finally:
                if self._observer is not None:
                    self._observer.on_call(self._library.calls[-1])

        return call

    def _refuse(self, name: str, error: Exception, reason: str) -> NoReturn:
        """Raise what a call raises that could not be served for this reason."""
        try:
            shown = _fails_natively(self._library, self._question)
        except VideoProError:
            raise
        except Exception as failed:
            raise MachineFailed(failed) from error
        if shown is not None:
            raise shown from error
        raise CallError(f"{name}() could not be served: {reason}") from error


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
        ask_natively(native, question)
    except QUESTION_ERRORS as error:
        return error
    except ModuleError:
        # The run is without the module.
        return None
    return None
