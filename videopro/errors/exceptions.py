"""Errors that a user can fix, and unexpected exceptions: a library's exception about its data, or a bug of
ours. Every package raises the former; only command lines turn them into an exit status.

The latter fail one question, or one call of a program, and are recorded with their class, their location and
their traceback (`ExceptionRecord`). Errors of the machine (memory, disk, device) end the run, because
anything tried next would fail too.
"""

from __future__ import annotations

import errno
import re
import signal
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class VideoProError(Exception):
    """An error whose message says what is wrong and how to fix it."""


class ConfigError(VideoProError):
    """An invalid setting, flag or settings file."""


class VideoError(VideoProError):
    """A video that cannot be read within the time limit, or at all."""


class SubtitleError(VideoProError):
    """Subtitles that are missing or cannot be read."""


class QuestionError(VideoProError):
    """An invalid question: too few options, or an answer that is not among them."""


class BackboneError(VideoProError):
    """A model that cannot be loaded or reached, or a request that it cannot serve."""


@dataclass(frozen=True)
class ExceptionRecord:
    """An exception as stored in a trace."""

    type: str
    """Its class: "ValueError", or "cv2.error" with the package that defines it."""
    place: str
    """Where it was raised: file and line, below the package's folder."""
    message: str
    traceback: str

    @property
    def key(self) -> tuple[str, str]:
        """Equal for two exceptions of the same class raised at the same place."""
        return self.type, self.place

    def __str__(self) -> str:
        return f"{self.type}: {self.message} ({self.place})"


@dataclass(frozen=True)
class Failure:
    """Why a program, an agent or a question failed, as stored in a trace."""

    type: str
    """The class of the exception ("VideoError", "WorkerDied", ...), or the budget that a program exceeded
    ("CpuLimit", "CallLimit", ...)."""
    message: str
    line: int | None = None
    """Line of the program, from 1, if the error has one."""
    log: str = ""


class UnexpectedError(VideoProError):
    """An unexpected exception: a library's exception about its data, or a bug of ours."""

    def __init__(self, message: str, record: ExceptionRecord | None = None) -> None:
        super().__init__(message, record)
        self.record = record

    def __str__(self) -> str:
        return str(self.args[0])


class NativeError(UnexpectedError):
    """An unexpected exception outside a program: no request of a planner or an agent caused it."""


QUESTION_ERRORS = (VideoError, SubtitleError, BackboneError, NativeError, UnexpectedError)
"""Errors that fail a single question and leave the rest of the run unaffected. A trace names the first one
that fits."""


class BudgetExceeded(Exception):
    """A program's or a question's budget is used up. `kind`: the budget's name; `positions`: where in a
    program, as (line, function), if known."""

    def __init__(self, kind: str, message: str, positions: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.positions = positions


class BenchmarkError(VideoProError):
    """A benchmark folder or annotation file that is missing or broken."""


class DatasetError(VideoProError):
    """A training file that is missing or broken, or has a row that cannot be trained on."""


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


def signal_name(number: int) -> str:
    """A signal's name for a message: SIGKILL, SIGRTMIN+6, or "signal 32" for one that has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        if signal.SIGRTMIN < number < signal.SIGRTMAX:
            return f"SIGRTMIN+{number - signal.SIGRTMIN}"
        return f"signal {number}"


# ---- what nobody foresaw -----------------------------------------------------------------------------------

# About forty frames of a traceback, and a message with the shapes of a few tensors.
_MOST_MESSAGE = 500
_MOST_TRACEBACK = 6000
"""Characters. A trace holds one of each for an exception."""

_MACHINES_ERRNO = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM),
    *(errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ENXIO),
    # A network's folder that is gone.
    *(errno.ESTALE, errno.ENOTCONN),
}
# Of torch, which is not imported for this.
_MACHINES_CLASSES = {"OutOfMemoryError", "AcceleratorError"}
# What torch, Triton and libraries in Rust raise as RuntimeError, and what these packages raise as their own
# exceptions. No other exception is read, and nothing in quotes: it may be what a program wrote.
_MACHINES_PACKAGES = ("torch", "triton", "onnxruntime", "safetensors", "safetensors_rust", "sqlite3", "cv2")
_QUOTED = re.compile(r"(?<!\w)(['\"`]).*?(?:\1(?!\w)|\Z)", re.DOTALL)
_MACHINES_MESSAGE = re.compile(
    r"(CUDA|HIP|XPU|MPS) (driver error|error|failure|out of memory)|Triton Error \[(CUDA|HIP|ZE)\]"
    r"|Found no NVIDIA driver|No (CUDA|HIP) GPUs are available|device-side assert|NCCL error"
    r"|can't start new thread"
    r"|(CUBLAS|CUDNN)_STATUS_(NOT_INITIALIZED|ALLOC_FAILED|EXECUTION_FAILED|INTERNAL_ERROR)"
    r"|can't allocate memory|[Ff]ailed to allocate memory|bad_alloc|Cannot allocate memory"
    # OpenCV, SQLite, and Rust with the number of the system's error.
    r"|\(-4:Insufficient memory\)|\A(database or disk is full|disk I/O error)\Z"
    rf"|\(os error ({'|'.join(map(str, sorted(_MACHINES_ERRNO)))})\)"
)


def record_exception(error: Exception) -> ExceptionRecord:
    """The record of an exception that is being handled."""
    kind = type(error)
    package = kind.__module__.split(".")[0]
    name = kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
    frames = traceback.extract_tb(error.__traceback__)
    position = f"{_below_package(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"
    text = "".join(traceback.format_exception(error))
    if len(text) > _MOST_TRACEBACK:
        # The end says what was raised, and where.
        text = "…" + text[-_MOST_TRACEBACK:]
    return ExceptionRecord(name, position, _one_line(str(error), _MOST_MESSAGE), _storable(text))


def is_machines(error: BaseException) -> bool:
    """Whether an exception comes from the machine: no memory, no disk, no device."""
    if isinstance(error, MemoryError):
        return True
    # A missing or unreadable file is an OSError too, and costs only the question that needs it.
    if isinstance(error, OSError):
        return error.errno in _MACHINES_ERRNO
    # By name along the base classes: a library may derive from torch's, which are not imported for this.
    if any(kind.__name__ in _MACHINES_CLASSES for kind in type(error).__mro__):
        return True
    package = type(error).__module__.split(".")[0]
    may_be = isinstance(error, RuntimeError) or package in _MACHINES_PACKAGES
    return may_be and _MACHINES_MESSAGE.search(_QUOTED.sub("", str(error))) is not None


def machine_error(error: BaseException, ids: Sequence[str] = ()) -> MachineError:
    """The one-line error for the user when the machine fails, which ends a command; `ids`: the questions that
    were being answered."""
    failure = _one_line(f"{type(error).__name__}: {error}".rstrip(": "), 300)
    message = (
        f"the machine failed ({failure}); free memory or disk space, or lower --workers, --in-flight or "
        "--backbone frames=..., and re-run the same command to resume (finished work is saved)"
    )
    return MachineError(message, failure, tuple(ids))


@contextmanager
def unexpected_as(kind: type[UnexpectedError] = UnexpectedError) -> Iterator[None]:
    """Raise an unexpected exception as `kind`; let a VideoProError, BudgetExceeded and errors of the machine
    pass."""
    try:
        yield
    except (VideoProError, BudgetExceeded):
        raise
    except Exception as error:
        if is_machines(error):
            raise
        raise as_unexpected(error, kind) from error


def as_unexpected(error: Exception, kind: type[UnexpectedError] = UnexpectedError) -> UnexpectedError:
    """The error for an unexpected exception."""
    record = record_exception(error)
    return kind(str(record), record)


def _below_package(filename: str) -> str:
    """A path below the folder of the packages, or of this package, without the machine's part."""
    parts = Path(filename).parts
    # So that the same exception has the same key on every machine of a cluster.
    for root in ("site-packages", "dist-packages"):
        if root in parts:
            return "/".join(parts[parts.index(root) + 1 :])
    ours = Path(__file__).resolve().parents[2]
    path = Path(filename).resolve()
    if path.is_relative_to(ours):
        return path.relative_to(ours).as_posix()
    return "/".join(parts[-2:])


def _one_line(text: str, most: int) -> str:
    line = " ".join(_storable(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


FIRST_VIDEOS = 3
"""A run stops when all questions so far, about at least this many videos, ended in the same exception (same
class and place)."""
VIDEOS_IN_A_ROW = 8
"""Once a question was answered, the run stops when consecutive questions about this many videos all end so.
If one video in five is odd, that happens in one of 1,500 runs over 300 videos."""


class Streaks:
    """Detects an exception that keeps recurring."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._videos: set[str] = set()
        self._most = FIRST_VIDEOS

    @property
    def videos(self) -> int:
        """The number of videos of the latest questions that all ended in the same exception."""
        return len(self._videos)

    def spare(self) -> None:
        """Count an answered question, whatever exceptions its program caught."""
        self._key, self._most = None, VIDEOS_IN_A_ROW
        self._videos.clear()

    def end(self, exception: ExceptionRecord, video: str) -> bool:
        """Count a question about a video that ended in an exception. Returns whether that should end the
        run."""
        if exception.key != self._key:
            self._key = exception.key
            self._videos.clear()
        self._videos.add(video)
        return self.videos >= self._most
