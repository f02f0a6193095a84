"""Exceptions that nobody foresaw: a library's about its data, or a mistake of ours.

They cost one question, or one call of a program, and are recorded with their class, their place and their
traceback (`ExceptionRecord`). The machine's own errors (memory, disk, device) are left alone: whatever is
tried next fails too, so they end the run.
"""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from videopro.errors.exceptions import ExceptionRecord, MachineError, UnexpectedError, VideoProError

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
# What torch, Triton and libraries in Rust raise as RuntimeError, and what these packages raise as an
# exception of their own. No other exception is read, and nothing in quotes: it may be what a program wrote.
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
    """Whether an exception is the machine's: no memory, no disk, no device."""
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
    """What tells the user in one line of an error of the machine, which ends a command; `ids`: the questions
    that were being answered."""
    failure = _one_line(f"{type(error).__name__}: {error}".rstrip(": "), 300)
    message = (
        f"the machine failed ({failure}): free memory or space, or give this command less to hold at a time "
        "(--workers, --in-flight, --backbone frames=...); finished work is saved, and the same command "
        "resumes"
    )
    return MachineError(message, failure, tuple(ids))


@contextmanager
def unexpected_as(kind: type[UnexpectedError] = UnexpectedError) -> Iterator[None]:
    """Raise an exception that nobody foresaw as `kind`; a VideoProError and the machine's errors as they
    are."""
    try:
        yield
    except VideoProError:
        raise
    except Exception as error:
        if is_machines(error):
            raise
        raise as_unexpected(error, kind) from error


def as_unexpected(error: Exception, kind: type[UnexpectedError] = UnexpectedError) -> UnexpectedError:
    """The error that stands for an exception that nobody foresaw."""
    record = record_exception(error)
    return kind(str(record), record)


def _below_package(filename: str) -> str:
    """A path without the machine's part: below the folder of the packages, or of ours."""
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
