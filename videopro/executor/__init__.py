"""Running untrusted programs: `run(program_text, functions, inputs, limits)`.

A program runs in its own locked CPython process (`inside`), never in this one. It sees only the functions
that it is given, plain data and opaque handles. The package depends on the standard library and
on what lies below it (errors, storage), not on videos, modules or models.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from videopro.executor.calls import BudgetExceeded, calling_line, use_frames
from videopro.executor.inside.allowed import FORBIDDEN_BUILTINS
from videopro.executor.inside.allowed import MODULES as IMPORTABLE_MODULES
from videopro.executor.outcome import (
    DEFAULT_LIMITS,
    Limits,
    Outcome,
    SandboxError,
    SandboxMissing,
    SandboxUnsafe,
    ZygoteGone,
)
from videopro.executor.parsing import ENTRY, MAX_CHARS, Program, parse_program, planning_text
from videopro.executor.pool import Executor
from videopro.executor.python_syntax import REPLY, parse_python

__all__ = [
    "BudgetExceeded",
    "DEFAULT_LIMITS",
    "ENTRY",
    "Executor",
    "FORBIDDEN_BUILTINS",
    "IMPORTABLE_MODULES",
    "Limits",
    "MAX_CHARS",
    "Outcome",
    "Program",
    "REPLY",
    "SandboxError",
    "SandboxMissing",
    "SandboxUnsafe",
    "ZygoteGone",
    "calling_line",
    "parse_program",
    "parse_python",
    "planning_text",
    "run",
    "sandbox_problem",
    "use_frames",
]

_lock = threading.Lock()
_shared: tuple[int, Executor] | None = None


def sandbox_problem() -> str:
    """Why programs cannot run on this machine; "" if the sandbox passes its self-test."""
    try:
        Executor().close()
    except SandboxError as error:
        return str(error)
    return ""


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


def _executor() -> Executor:
    global _shared
    with _lock:
        # A fork of this process does not use its parent's executor.
        if _shared is None or _shared[0] != os.getpid():
            _shared = os.getpid(), Executor()
        return _shared[1]


@atexit.register
def _close() -> None:
    if _shared is not None and _shared[0] == os.getpid():
        _shared[1].close()
