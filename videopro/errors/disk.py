"""Error messages for failed writes by any library: which file, why, and how to fix it."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from videopro.errors.exceptions import RunError, VideoProError

# EIO is a disk that accepts no more writes: as with a full one, the same command resumes elsewhere.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
# What flock raises on a disk that has no locks, such as Lustre without its mount option; nothing else here
# raises them.
_UNLOCKED = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}
_DISK = {
    *(*_FULL, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOENT, errno.ENOTDIR, errno.EMFILE, errno.ENAMETOOLONG, errno.ESTALE),
}


def is_full(error: OSError) -> bool:
    """Whether the disk (or a quota) is full or accepts no more writes."""
    return error.errno in _FULL


def lacks_locks(error: OSError) -> bool:
    """Whether a lock failed because the disk does not support locks."""
    return error.errno in _UNLOCKED


def reason_of(error: Exception) -> str:
    """The text of an error; of an OSError without the file's name, which the message around it has."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def cannot_write(path: Path | str, error: OSError, otherwise: str = "fix that") -> str:
    """The message for a failed write or lock. `otherwise`: the fix if neither space nor locks are the
    problem."""
    if lacks_locks(error):
        return cannot_lock(path, error)
    fix = (
        "free some space on that disk, then re-run the same command to resume"
        if is_full(error)
        else otherwise
    )
    return f"{path}: cannot be written ({reason_of(error)}); {fix}"


@contextmanager
def writing_file(path: Path | str, otherwise: str = "fix that") -> Iterator[None]:
    """Wrap code that writes or locks a file: in place of OSError, it raises RunError with the message of
    `cannot_write`."""
    try:
        yield
    except OSError as error:
        raise RunError(cannot_write(path, error, otherwise)) from error


@contextmanager
def reading_file(where: str, fix: str, kind: type[VideoProError]) -> Iterator[None]:
    """Wrap code that reads and parses a file: in place of OSError and ValueError, it raises an error of this
    kind. `where`: the beginning of the message, which names the file."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise kind(f"{where} cannot be read ({reason_of(error)}); {fix}") from error


def cannot_lock(path: Path | str, error: OSError) -> str:
    """The message for a file that cannot be locked."""
    return (
        f"{path}: cannot be locked ({reason_of(error)}), because this disk does not support file "
        "locks on this machine; set a folder on a disk that does (a local disk, NFS with its lock service, "
        "Lustre mounted with flock)"
    )


@contextmanager
def writing(contents: str, folder: Path, *, then: str) -> Iterator[None]:
    """Wrap code that writes into a folder: raises RunError, naming the `contents`, if the disk, a quota or
    permissions prevent it. `then`: what to do once there is space. Other errors pass through."""
    try:
        yield
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise RunError(
            f"{folder}: {contents} cannot be written ({reason}); {_room(folder)}free some "
            f"space on that disk, then {then}"
        ) from error


def _reason(error: Exception) -> str | None:
    """Why the write failed; None for another kind of error."""
    # Libraries append their own backtrace, line by line.
    message = str(error).strip().split("\n")[0][:200]
    if isinstance(error, OSError):
        return error.strerror or message if error.errno in _DISK else None
    # The tokenizers library raises plain exceptions, torch.save a RuntimeError without a reason.
    if isinstance(error, SafetensorError) or "(os error " in message:
        return message
    if isinstance(error, RuntimeError) and (
        "inline_container" in message or "PytorchStreamWriter" in message
    ):
        return "a file could not be written completely"
    return None


def _room(folder: Path) -> str:
    try:
        return f"{megabytes(shutil.disk_usage(folder).free)} are free; "
    except OSError:
        return ""


def megabytes(size: int) -> str:
    """A number of bytes as text."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6)):,} MB"
