"""The reusable executor: one zygote process, and as many programs side by side as threads ask for.

A zygote serves nobody before its self-test has passed, and one that died is replaced. There is no way around
it: where it cannot start, nothing runs. Knows when a program may run again; one zygote is `process`'s, and
what passes between the host and a program `conversation`'s.
"""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from videopro.executor.conversation import Conversation, ProgramNotStarted
from videopro.executor.ending import outcome, too_long
from videopro.executor.inside.filter import MACHINES
from videopro.executor.outcome import (
    DEFAULT_LIMITS,
    Limits,
    Outcome,
    SandboxError,
    SandboxMissing,
    ZygoteGone,
)
from videopro.executor.process import ZygoteProcess, compiled

# How often a program is begun, and a zygote started, before the run that needs it gives up. A zygote that is
# killed takes all threads' trials along, so there are more of these than anybody's luck is bad.
_TRIALS = 10
_STARTS = 5


class Executor:
    """Runs programs that nobody trusts, each in a locked process of its own.

    Thread safe: every thread's programs run side by side. A context manager; `close` ends its process. Raises
    SandboxError where programs cannot be run safely.
    """

    def __init__(self) -> None:
        machine = platform.machine()
        if sys.platform != "linux" or machine not in MACHINES:
            raise SandboxMissing(
                f"programs run on Linux on {' or '.join(MACHINES)}, not on {sys.platform} on {machine}."
            )
        self._lock = threading.Lock()
        self._zygote: ZygoteProcess | None = None
        self._closed = False
        self.walls = self._serving().walls
        """What stands around a program, seccomp apart, which always does."""

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

        `functions`: what it may call by name; they run here, on this thread. `inputs`: global names of the
        program, and the arguments of its `execute_command` by name, those that its signature takes. Plain
        data (None, bool, int, float, str, list, tuple, dict, set, frozenset) crosses by value; any other
        object as an opaque handle, with the attributes that its class names in `__program_fields__`, under
        the name that `__program_kind__` gives (its class's own by default). `prelude`: trusted source that
        runs before the program in its process; `class Answer(Handle)` there gives handles of the kind
        Answer their behaviour, and its public names become the program's globals. `fatal`: exceptions of
        functions that are no affair of the program's: they end it and are raised here, as is whatever is
        not an Exception.

        What comes back and is not plain data crosses in its plain form (`inside.plain`): a dataclass as a
        dict, a datetime as text, and so on.

        A program's failure is an Outcome. Raises SandboxError when the machinery fails: ZygoteGone when the
        program had called a function by then, so that it cannot be run again without doing so twice.
        """
        begun = time.monotonic()
        refused = too_long(program_text, limits)
        if refused is not None:
            return outcome("", refused, limits, begun)
        code = compiled(prelude)
        for trial in range(1, _TRIALS + 1):
            zygote = self._serving()
            conversation = None
            try:
                with zygote.child() as (program, report):
                    conversation = Conversation(program, report, functions, limits, fatal)
                    ending = conversation.hold(program_text, inputs, code)
            except (ZygoteGone, ProgramNotStarted) as error:
                if isinstance(error, ZygoteGone) or zygote.ended():
                    self._lost(zygote)
                # A program that has called nothing can run again without anybody noticing.
                if trial == _TRIALS or (conversation is not None and conversation.called):
                    raise
            else:
                if conversation.zygote_gone:
                    self._lost(zygote)
                calls, output, use = conversation.calls, conversation.output, conversation.use
                return outcome(program_text, ending, limits, begun, calls, output, use)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the zygote and every program that still runs. Calling it twice is fine."""
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

    def _serving(self) -> ZygoteProcess:
        """The zygote that serves, started if there is none. One that is seen here has passed its test."""
        zygote = self._zygote
        if zygote is not None:
            return zygote
        with self._lock:
            if self._closed:
                raise SandboxError("this executor is closed.")
            if self._zygote is None:
                self._zygote = _started()
            return self._zygote

    def _lost(self, zygote: ZygoteProcess) -> None:
        """Take a zygote that died out of service; who needs one starts another."""
        with self._lock:
            if self._zygote is not zygote:
                return  # Somebody else has.
            self._zygote = None
        zygote.stop()


def _started() -> ZygoteProcess:
    for _ in range(_STARTS - 1):
        try:
            return ZygoteProcess()
        except ZygoteGone:
            continue  # Killed as it came up, which says nothing about the next one.
    return ZygoteProcess()
