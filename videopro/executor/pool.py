"""The reusable executor: one zygote process, and as many programs side by side as threads ask for.

The zygote is started by exec with an empty environment and refuses to serve unless a first program, let loose
on its own walls, found them standing. There is no way around it: where it cannot start, nothing runs. Knows
processes; what passes between the host and a program is `conversation`'s.
"""

from __future__ import annotations

import json
import marshal
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from videopro.executor.conversation import Conversation, ZygoteGone
from videopro.executor.ending import outcome, too_long
from videopro.executor.inside.filter import MACHINES
from videopro.executor.outcome import DEFAULT_LIMITS, Limits, Outcome, SandboxError

_HERE = Path(__file__).resolve().parent
# Without site, user folders, .pyc files and warnings. -I would ignore the fixed hash seed, which makes the
# order of a set the same in every run.
_COMMAND = (sys.executable, "-s", "-S", "-P", "-B", "-W", "ignore", "-X", "utf8", "-c")
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_MAIN = "import sys; sys.path.append({path!r}); from inside.zygote import main; main({control}, {host})"
_START_SECONDS = 60.0


class Executor:
    """Runs programs that nobody trusts, each in a locked process of its own.

    Thread safe: every thread's programs run side by side. A context manager; `close` ends its process. Raises
    SandboxError where programs cannot be run safely.
    """

    def __init__(self) -> None:
        machine = platform.machine()
        if sys.platform != "linux" or machine not in MACHINES:
            raise SandboxError(
                f"programs run on Linux on {' or '.join(MACHINES)}, not on {sys.platform} on {machine}."
            )
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._generation = 0
        self._closed = False
        self.walls: tuple[str, ...] = ()
        """What stands around a program, seccomp apart, which always does."""
        with self._lock:
            self._start()

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

        A program's failure is an Outcome. Raises SandboxError when the machinery fails.
        """
        begun = time.monotonic()
        refused = too_long(program_text, limits)
        if refused is not None:
            return outcome("", refused, limits, begun)
        code = _compiled(prelude)
        for trial in (1, 2):
            generation = self._generation
            conversation = None
            try:
                program, report = self._fork()
                with program, report:
                    conversation = Conversation(program, report, functions, limits, fatal)
                    ending = conversation.hold(program_text, inputs, code)
            except ZygoteGone:
                self._restart(generation)
                # A program that has called nothing can run again without anybody noticing.
                if trial == 2 or (conversation is not None and conversation.calls):
                    raise
            else:
                return outcome(
                    program_text,
                    ending,
                    limits,
                    begun,
                    conversation.calls,
                    conversation.output,
                    conversation.use,
                )
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the zygote and every program that still runs. Calling it twice is fine."""
        with self._lock:
            self._closed = True
            self._stop()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- the zygote ---------------------------------------------------------------------------------------

    def _fork(self) -> tuple[socket.socket, socket.socket]:
        """Have a child made. Returns the host's ends of its two sockets."""
        if self._control is None:
            raise SandboxError("this executor is closed.")
        program, program_child = socket.socketpair()
        report, report_zygote = socket.socketpair()
        with program_child, report_zygote:
            try:
                socket.send_fds(self._control, [b"fork"], [program_child.fileno(), report_zygote.fileno()])
            except OSError as error:
                program.close()
                report.close()
                raise ZygoteGone(f"the process that starts programs died: {error}") from error
        return program, report

    def _restart(self, generation: int) -> None:
        with self._lock:
            if self._closed:
                raise SandboxError("this executor was closed while a program ran.")
            if generation == self._generation:  # Nobody else has done it.
                self._stop()
                self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        main = _MAIN.format(path=str(_HERE), control=theirs.fileno(), host=os.getpid())
        with theirs:
            zygote = subprocess.Popen(
                [*_COMMAND, main],
                env=_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._zygote, self._control = zygote, ours
        ours.settimeout(_START_SECONDS)
        try:
            ready = ours.recv(1 << 16)
        except OSError as error:
            self._stop()
            raise SandboxError(f"the process that starts programs did not come up: {error}") from error
        if not ready:
            told = zygote.communicate()[1].decode("utf-8", "replace").strip()
            self._stop()
            raise SandboxError(f"the process that starts programs did not come up: {told[-1000:]}")
        self.walls = tuple(json.loads(ready)["walls"])
        self._generation += 1
        try:
            self._test()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._zygote is not None:
            try:
                self._zygote.wait(5)
            except subprocess.TimeoutExpired:
                self._zygote.kill()
                self._zygote.wait()
            if self._zygote.stderr is not None:
                self._zygote.stderr.close()
            self._zygote = None

    def _test(self) -> None:
        """Let a program loose on the walls; refuse to serve if any gives way."""
        program, report = self._fork()
        with program, report:
            conversation = Conversation(program, report, {}, Limits(wall_seconds=_START_SECONDS), ())
            ending = conversation.hold(_PROBE_CALL, {}, _compiled(_PROBE))
        if ending.raised:
            raise SandboxError(f"programs cannot be run safely here: {ending.raised[0][:2]}")
        if ending.value != []:
            raise SandboxError(
                f"programs cannot be run safely here: inside the sandbox this still works: {ending.value}"
            )


_PROBE_CALL = "def execute_command():\n    return probe()"
# Runs behind the walls with everything that Python has; what should fail and does not, it names.
_PROBE = (_HERE / "inside" / "probe.py").read_text(encoding="utf-8")


@lru_cache(maxsize=32)
def _compiled(prelude: str) -> str:
    """A prelude as the child reads it: trusted, and of this same interpreter, so that marshal will do."""
    if not prelude:
        return ""
    return b64encode(marshal.dumps(compile(prelude, "<prelude>", "exec"))).decode("ascii")
