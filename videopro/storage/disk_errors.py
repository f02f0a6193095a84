"""What to say where a file cannot be written, whatever library wrote: which, why, and how to fix it.

Knows errors of the system and libraries' ways to fail; nothing of what is written.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from videopro.errors import RunError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
_DISK = {
    *(*_FULL, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOENT, errno.ENOTDIR, errno.EMFILE, errno.ENAMETOOLONG, errno.ESTALE),
}


def is_full(error: OSError) -> bool:
    """Whether the disk (or a quota) has no room, or takes nothing any more."""
    return error.errno in _FULL


def cannot_write(path: Path | str, error: OSError, otherwise: str = "fix that") -> str:
    """A message for a failure to write. `otherwise`: the fix where space is not the problem."""
    fix = (
        "free some space on that disk, then re-run the same command to resume"
        if is_full(error)
        else otherwise
    )
    return f"{path}: cannot be written ({error.strerror or error}); {fix}"


@contextmanager
def writing(what: str, folder: Path, *, then: str, needed: int = 0) -> Iterator[None]:
    """Around code that writes into a folder: RunError, naming `what` was being written, where the disk (or a
    quota, or permissions) lets it not. `needed`: bytes that it takes, as far as known. `then`: what to do
    once there is room. Other errors pass."""
    try:
        yield
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise RunError(
            f"{folder}: {what} cannot be written ({reason}); {_room(folder, needed)}make room on that disk, "
            f"and {then}"
        ) from error


def _reason(error: Exception) -> str | None:
    """Why it could not be written; None for an error of another kind."""
    told = str(error).strip().split("\n")[0][:200]
    if isinstance(error, OSError):
        return error.strerror or told if error.errno in _DISK else None
    # The tokenizers library raises plain exceptions, torch.save a RuntimeError that tells no reason.
    if isinstance(error, SafetensorError) or "(os error " in told:
        return told
    if isinstance(error, RuntimeError) and ("inline_container" in told or "PytorchStreamWriter" in told):
        return "a file could not be written to its end"
    return None


def _room(folder: Path, needed: int) -> str:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    takes = f"it takes about {megabytes(needed)} and " if needed else ""
    return f"{takes}{megabytes(free)} are free there: "


def megabytes(size: int) -> str:
    """Bytes for a reader."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6)):,} MB"
