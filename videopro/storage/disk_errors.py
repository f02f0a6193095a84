"""What to say of a file that cannot be written: which, why, and what would mend it.

Knows errors of the system; nothing of any file.
"""

from __future__ import annotations

import errno
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def is_full(error: OSError) -> bool:
    """Whether the disk (or a quota) has no room, or takes nothing any more."""
    return error.errno in _FULL


def cannot_write(path: Path | str, error: OSError, otherwise: str = "mend that") -> str:
    """A message for a failure to write. `otherwise`: the mend where room is not what is lacking."""
    mend = "free some space on that disk, and the same command goes on" if is_full(error) else otherwise
    return f"{path}: cannot be written ({error.strerror or error}); {mend}"
