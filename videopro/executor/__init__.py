"""Running a program that nobody trusts: `run(program_text, functions, inputs, limits)`.

The program runs in a locked CPython process of its own (`inside`), never in this one; it sees the functions
that it is given, plain data, and opaque handles. Usable without the rest of VideoPro: it knows nothing of
videos, modules or models, and imports nothing but the standard library.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from videopro.executor.calls import BudgetExceeded, use_frames
from videopro.executor.monty import MontyExecutor, warn
from videopro.executor.outcome import (
    DEFAULT_LIMITS,
    Limits,
    ModuleCall,
    Outcome,
    ProgramError,
    SandboxError,
    SandboxMissing,
    WallBreached,
    ZygoteGone,
)
from videopro.executor.pool import Executor

__all__ = [
    "BudgetExceeded",
    "Executor",
    "Limits",
    "ModuleCall",
    "MontyExecutor",
    "Outcome",
    "ProgramError",
    "SandboxError",
    "SandboxMissing",
    "WallBreached",
    "ZygoteGone",
    "open_executor",
    "run",
    "use_frames",
]

_lock = threading.Lock()
_shared: tuple[int, Executor | MontyExecutor] | None = None


def open_executor() -> Executor | MontyExecutor:
    """The sandbox of this machine: locked processes, or Monty with a warning where the kernel has no seccomp.

    Raises SandboxError where there is neither, and where the locked processes would not hold: what fails its
    self-test is no reason to run programs in another way. Close it, or use it as a context manager.
    """
    try:
        return Executor()
    except SandboxMissing as reason:
        try:
            monty = MontyExecutor()
        except SandboxError as error:
            raise SandboxError(f"{reason} {error}") from error
        warn(str(reason))
        return monty


def run(
    program_text: str,
    functions: Mapping[str, Callable[..., Any]],
    inputs: Mapping[str, Any],
    limits: Limits = DEFAULT_LIMITS,
    prelude: str = "",
    *,
    fatal: tuple[type[BaseException], ...] = (),
) -> Outcome:
    """Run one program in this process's shared executor; see `Executor.run`."""
    return _executor().run(program_text, functions, inputs, limits, prelude, fatal=fatal)


def _executor() -> Executor | MontyExecutor:
    global _shared
    with _lock:
        # A fork of this process has no part in its parent's executor.
        if _shared is None or _shared[0] != os.getpid():
            _shared = os.getpid(), open_executor()
        return _shared[1]


@atexit.register
def _close() -> None:
    if _shared is not None and _shared[0] == os.getpid():
        _shared[1].close()
