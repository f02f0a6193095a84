"""Errors that a user can act on. Every package raises these; only command lines turn them into an exit
status.
"""

from __future__ import annotations

from dataclasses import dataclass


class VideoProError(Exception):
    """A failure whose message names what is wrong and how to fix it."""


class ConfigError(VideoProError):
    """An invalid setting, flag or settings file."""


class VideoError(VideoProError):
    """A video that cannot be read, or not within the time limit."""


class SubtitleError(VideoProError):
    """Subtitles that are missing or cannot be read."""


class QuestionError(VideoProError):
    """An invalid question: too few options, or an answer that is not among them."""


class BackboneError(VideoProError):
    """A model that cannot be loaded or reached, or a request that it cannot serve."""


@dataclass(frozen=True)
class ExceptionRecord:
    """An exception as a trace holds it."""

    type: str
    """Its class: "ValueError", or "cv2.error" with the package that defines it."""
    place: str
    """Where it was raised: file and line, below the package's folder."""
    message: str
    traceback: str

    @property
    def key(self) -> tuple[str, str]:
        """Equal for two exceptions of one class that were raised at one place."""
        return self.type, self.place

    def __str__(self) -> str:
        return f"{self.type}: {self.message} ({self.place})"


@dataclass(frozen=True)
class Failure:
    """Why a program, an agent or a question failed, as a trace holds it."""

    type: str
    """The class of the exception ("VideoError", "WorkerDied", ...), or the budget that a program exceeded
    ("CpuLimit", "CallLimit", ...)."""
    message: str
    line: int | None = None
    """Line of the program, from 1, if the error has one."""
    log: str = ""


class UnexpectedError(VideoProError):
    """An exception that nobody foresaw: a library's about its data, or a mistake of ours."""

    def __init__(self, message: str, record: ExceptionRecord | None = None) -> None:
        super().__init__(message, record)
        self.record = record

    def __str__(self) -> str:
        return str(self.args[0])


class NativeError(UnexpectedError):
    """An exception that nobody foresaw, and that shows without a program: no request of a planner or an agent
    caused it."""


QUESTION_ERRORS = (VideoError, SubtitleError, BackboneError, NativeError, UnexpectedError)
"""Errors that fail a single question and leave the rest of the run unaffected. A trace names the first one
that fits."""


class BenchmarkError(VideoProError):
    """A benchmark folder or annotation file that is missing or broken."""


class DatasetError(VideoProError):
    """A training file that is missing or broken, or that has a row which cannot be trained on."""


class RunError(VideoProError):
    """A run folder that cannot be written, resumed or read."""


class MachineError(RunError):
    """The machine failed (no memory, no device), by `failure`, while the questions `ids` were answered."""

    def __init__(self, message: str, failure: str = "", ids: tuple[str, ...] = ()) -> None:
        super().__init__(message, failure, ids)
        self.failure = failure
        self.ids = ids

    def __str__(self) -> str:
        return str(self.args[0])


class WorkerBug(Exception):
    """An internal error in a worker process; the message is its traceback."""
