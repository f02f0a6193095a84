"""Errors that a user can act on, the ones that nobody foresaw, and the names of signals in messages."""

from videopro.errors.cancellation import (
    Cancellation,
    Cancelled,
    cancellable,
    carrying_cancellation,
    check_cancelled,
    current_cancellation,
)
from videopro.errors.disk import cannot_lock, cannot_write, is_full, writing
from videopro.errors.exceptions import (
    QUESTION_ERRORS,
    BackboneError,
    BenchmarkError,
    ConfigError,
    DatasetError,
    ExceptionRecord,
    Failure,
    MachineError,
    NativeError,
    QuestionError,
    RunError,
    SubtitleError,
    UnexpectedError,
    VideoError,
    VideoProError,
    WorkerBug,
)
from videopro.errors.signals import signal_name
from videopro.errors.streaks import Streaks
from videopro.errors.unexpected import (
    as_unexpected,
    is_machines,
    machine_error,
    record_exception,
    unexpected_as,
)

__all__ = [
    "Streaks",
    "BackboneError",
    "BenchmarkError",
    "Cancellation",
    "Cancelled",
    "ConfigError",
    "DatasetError",
    "ExceptionRecord",
    "Failure",
    "MachineError",
    "NativeError",
    "QUESTION_ERRORS",
    "QuestionError",
    "RunError",
    "SubtitleError",
    "UnexpectedError",
    "VideoError",
    "VideoProError",
    "WorkerBug",
    "as_unexpected",
    "cancellable",
    "cannot_lock",
    "cannot_write",
    "carrying_cancellation",
    "check_cancelled",
    "current_cancellation",
    "is_full",
    "is_machines",
    "machine_error",
    "record_exception",
    "signal_name",
    "unexpected_as",
    "writing",
]
