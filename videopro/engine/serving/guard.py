"""Runs one program, and leaves no process of it behind: python guard.py PARENT PROGRAM ARGUMENT...

The program ends with this guard's parent, however that ends, `kill -9` included. An engine starts its own
processes, which outlive it when it is killed: they become this process's children then, and are killed too.

Run as a script, it needs the standard library only: it runs next to an engine for hours. The parent's end is
seen through a pidfd, since PR_SET_PDEATHSIG would signal the end of the thread that started this process.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

PATIENCE = 20.0
"""Seconds that the program gets to end by itself."""
_CHILDRENS_PATIENCE = 3.0
# How long to wait for the guard, in addition to the time that it gives the program.
_END_SECONDS = 10.0
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def main(arguments: list[str]) -> int:
    """Run the program until it, this guard's parent or a signal ends it. Returns its exit status, as a
    shell."""
    if "--help" in arguments[:1]:
        print(__doc__)
        return 0
    parent, *command = arguments
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in _ENDING:
        signal.signal(number, lambda *_: None)
    # The starter of this process blocks them meanwhile.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        watched = os.pidfd_open(int(parent))
    except ProcessLookupError:
        return 1
    # Before the pidfd was opened, the number may have passed to another process.
    if os.getppid() != int(parent):
        return 1
    program = subprocess.Popen(command, preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))
    events = select.poll()
    for descriptor in (watched, awake, os.pidfd_open(program.pid)):
        events.register(descriptor, select.POLLIN)
    events.poll()
    if program.poll() is None:
        program.terminate()
        with suppress(subprocess.TimeoutExpired):
            program.wait(PATIENCE)
    if program.poll() is None:
        program.kill()
    status = program.wait()
    _end_children()
    return 128 - status if status < 0 else status


def _end_children() -> None:
    """End what the program left, and what those processes leave, until nothing is left. They are asked first:
    Python's tracker of shared memory, which ignores that, frees what the others shared once they are gone."""
    began = time.monotonic()
    while True:
        is_late = time.monotonic() - began > _CHILDRENS_PATIENCE
        for child in _children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL if is_late else signal.SIGTERM)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)


def _children() -> list[int]:
    process, children = os.getpid(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name of a process, in parentheses, may hold anything.
                _, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                if int(parent) == process:
                    children.append(int(entry.name))
    return children


# ---- for who starts one ------------------------------------------------------------------------------------


def start_guarded(
    command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a program, and return its guard's process. `log` gets what it prints. Call it within
    `defer_signals`, which the guard expects, and keep the process before that block ends."""
    return subprocess.Popen(
        [sys.executable, "-I", __file__, str(os.getpid()), *command],
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
            process.wait(PATIENCE + _END_SECONDS)
    kill_group(process)
    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of its process group, where the guard itself was killed."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
