"""A program behind a guard (`guard`), which leaves no process of it behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from videopro.engine.serving import guard

# Beside the time that the guard gives the program.
_END_SECONDS = 10.0


def start_guarded(
    command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a program, and return its guard's process. `log` gets what it prints. Call it within
    `defer_signals`, which the guard expects, and keep the process before that block ends."""
    return subprocess.Popen(
        [sys.executable, "-I", guard.__file__, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


def end_guarded(process: subprocess.Popen[bytes]) -> None:
    """End the guard, which ends the program."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(guard.PATIENCE + _END_SECONDS)
    kill_group(process)
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of its process group, where the guard itself was killed."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
