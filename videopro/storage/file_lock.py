"""Waiting for the lock of a file."""

from __future__ import annotations

import fcntl
import time

from videopro.errors import wait_until


def lock_file(file: int) -> None:
    """Lock an open file for this descriptor alone; waits for the lock. The kernel frees that of a killed
    process. Raises OSError on a disk without locks, and Cancelled."""

    def attempt(seconds: float | None) -> bool:
        if seconds is None:
            fcntl.flock(file, fcntl.LOCK_EX)
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The kernel tells nobody that waits for a while only.
            time.sleep(seconds)
            return False
        return True

    wait_until(attempt)
