"""Running untrusted programs: `run(program_text, functions, inputs, limits)`.

A program runs in its own locked CPython process (`inside`), never in this one. It sees only the functions
that it is given, plain data and opaque handles. The package depends on the standard library and
on the packages below it (errors, storage), not on videos, modules or models.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from videopro.executor.calls import calling_line as calling_line
from videopro.executor.calls import use_frames as use_frames
from videopro.executor.inside.allowed import FORBIDDEN_BUILTINS as FORBIDDEN_BUILTINS
from videopro.executor.inside.allowed import IMPORTABLE_MODULES as IMPORTABLE_MODULES
from videopro.executor.outcome import DEFAULT_LIMITS as DEFAULT_LIMITS
from videopro.executor.outcome import Limits as Limits
from videopro.executor.outcome import Outcome as Outcome
from videopro.executor.outcome import SandboxError as SandboxError
from videopro.executor.outcome import SandboxMissing as SandboxMissing
from videopro.executor.outcome import SandboxUnsafe as SandboxUnsafe
from videopro.executor.outcome import ZygoteGone as ZygoteGone
from videopro.executor.parsing import ENTRY as ENTRY
from videopro.executor.parsing import MAX_CHARS as MAX_CHARS
from videopro.executor.parsing import REPLY as REPLY
from videopro.executor.parsing import Program as Program
from videopro.executor.parsing import parse_program as parse_program
from videopro.executor.parsing import parse_python as parse_python
from videopro.executor.parsing import planning_text as planning_text
from videopro.executor.pool import Executor as Executor

_lock = threading.Lock()
_shared: tuple[int, Executor] | None = None


def sandbox_problem() -> str:
    """The reason why programs cannot run on this machine; "" if the sandbox passes its self-test."""
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
