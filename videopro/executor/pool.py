"""The reusable executor: one zygote process, and as many programs in parallel as there are calling threads.

A zygote is used only after it has passed its self-test; one that died is replaced. Where no zygote can start,
nothing runs. `process` handles a single zygote, `conversation` the run of a single program.
"""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from videopro.executor.conversation import Conversation, ProgramNotStarted
from videopro.executor.inside.confinement import MACHINES
from videopro.executor.outcome import (
    DEFAULT_LIMITS,
    WITHOUT_PROGRAMS,
    Limits,
    Outcome,
    SandboxError,
    SandboxMissing,
    ZygoteGone,
    outcome,
    too_long,
)
from videopro.executor.process import ZygoteProcess, compiled

# How often a program is tried, and a zygote started, before the run gives up. A killed zygote costs every
# thread a trial, so the limit is generous.
_TRIALS = 10
_STARTS = 5


class Executor:
    """Runs untrusted programs, each in its own locked process.

    Thread-safe: programs of several threads run in parallel. A context manager; `close` ends its process.
    Raises SandboxError if programs cannot be run safely.
    """

    def __init__(self) -> None:
        machine = platform.machine()
        if sys.platform != "linux" or machine not in MACHINES:
            raise SandboxMissing(
                f"programs run on Linux on {' or '.join(MACHINES)}, not on {sys.platform} on {machine}. "
                + WITHOUT_PROGRAMS
            )
        self._lock = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        self._closed = False
        self.restrictions = self._running_zygote().restrictions
        """The restrictions on a program in addition to seccomp, which is always there."""

    def run(
        self,
        program_text: str,
        functions: Mapping[str, Callable[..., Any]],
        inputs: Mapping[str, Any],
        limits: Limits = DEFAULT_LIMITS,
        prelude: str = "",
        *,
        fatal: tuple[type[BaseException], ...] = (),
    ) -> Outcome:
        """Run one program and wait for it.

        `functions`: what the program may call by name; they run here, on this thread. `inputs`: global names
        of the program, also passed to its `execute_command` by name as far as its signature takes them.
        Plain data (None, bool, int, float, str, list, tuple, dict, set, frozenset) crosses by value; any
        other object as an opaque handle with the attributes listed in its class's `__program_fields__`,
        under the name in `__program_kind__` (by default the class's name). `prelude`: trusted source that
        runs before the program in its process; a `class Answer(Handle)` there defines the behaviour of
        handles of the kind Answer, and its public names become the program's globals. `fatal`: exceptions
        of functions that the program must not see: they end it and are raised here, as is anything that is
        not an Exception.

        What the program passes or returns crosses as plain data (`inside.handle`): a dataclass as a dict, a
        datetime as text, and so on.

        A program's failure is an Outcome. Raises SandboxError if the sandbox fails: ZygoteGone if the
        program had already called a function, and so cannot be run again without repeating the call.
        """
        begun = time.monotonic()
        refused = too_long(program_text, limits)
        if refused is not None:
            return outcome("", refused, limits, begun)
        code = compiled(prelude)
        for trial in range(1, _TRIALS + 1):
            zygote = self._running_zygote()
            conversation = None
            try:
                with zygote.child() as (program, report):
                    conversation = Conversation(program, report, functions, limits, fatal)
                    ending = conversation.run_program(program_text, inputs, code)
            except (ZygoteGone, ProgramNotStarted) as error:
                # A program may also die alone, for lack of memory: then the zygote stays.
                if isinstance(error, ZygoteGone) or zygote.ended():
                    self._discard(zygote)
                # A program that has called nothing can safely run again.
                if trial == _TRIALS or (conversation is not None and conversation.called):
                    raise
            else:
                if conversation.zygote_died:
                    self._discard(zygote)
                calls, output, use = conversation.calls, conversation.output, conversation.use
                return outcome(program_text, ending, limits, begun, calls, output, use)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the zygote and all running programs. May be called twice."""
        with self._lock:
            self._closed = True
            zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.stop()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- the zygote ---------------------------------------------------------------------------------------

    def _running_zygote(self) -> ZygoteProcess:
        """The running zygote, started if there is none. It has passed its self-test."""
        # Without the lock, which is held for seconds while a zygote starts.
        zygote = self._zygote
        if zygote is not None:
            return zygote
        with self._lock:
            if self._closed:
                raise SandboxError("this executor is closed.")
            if self._zygote is None:
                self._zygote = _start_zygote()
            return self._zygote

    def _discard(self, zygote: ZygoteProcess) -> None:
        """Discard a zygote that died; the next run that needs one starts another."""
        with self._lock:
            if self._zygote is not zygote:
                return  # Another thread has already done it.
            self._zygote = None
        zygote.stop()


def _start_zygote() -> ZygoteProcess:
    for _ in range(_STARTS - 1):
        try:
            return ZygoteProcess()
        except ZygoteGone:
            continue  # Killed during its start, which says nothing about the next one.
    return ZygoteProcess()
