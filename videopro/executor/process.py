"""The host's end of a zygote: start it, test its confinement, request processes from it, end it.

It is started by exec with an empty environment, and used only after a probe program has failed to escape.
`pool` decides when to start another.
"""

from __future__ import annotations

import contextlib
import errno
import json
import marshal
import os
import platform
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from videopro.errors import acquired, signal_name
from videopro.executor.conversation import Conversation, ProgramNotStarted
from videopro.executor.outcome import (
    WITHOUT_PROGRAMS,
    Ending,
    Limits,
    SandboxError,
    SandboxMissing,
    SandboxUnsafe,
    ZygoteGone,
)

_HERE = Path(__file__).resolve().parent
# Without site, user folders, .pyc files and warnings. -I would ignore the fixed hash seed, which keeps the
# order of a set the same in every run.
_COMMAND = (sys.executable, "-s", "-S", "-P", "-B", "-W", "ignore", "-X", "utf8", "-c")
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_MAIN = "import sys; sys.path.append({path!r}); from inside.zygote import main; main({control}, {host})"
_START_SECONDS = 60.0
# Errors of the kernel for a socket whose other end is gone, and of Python for a closed socket.
_DISCONNECTED = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF)


class ZygoteProcess:
    """A process that forks a locked child for each program.

    Raises ZygoteGone if it dies while it starts, SandboxUnsafe and SandboxMissing if programs must not run
    here, another SandboxError if it cannot be started.
    """

    def __init__(self) -> None:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise SandboxError(f"the process that starts programs cannot be started: {error}") from error
        self._control = ours
        self._sending = threading.Lock()
        main = _MAIN.format(path=str(_HERE), control=theirs.fileno(), host=os.getpid())
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*_COMMAND, main],
                    # Nothing of the host's environment, which may hold keys and addresses.
                    env=_ENVIRONMENT,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                    # A Ctrl-C on the terminal goes to a whole process group: the zygote must outlive it until
                    # the host is done.
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise SandboxError(f"the process that starts programs cannot be started: {error}") from error
        try:
            self._await_start()
            self._test()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @contextmanager
    def child(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        """Request a child, waiting for a free place. Yields the host's ends of its two sockets and closes
        them afterwards."""
        with acquired(self._room), contextlib.ExitStack() as stack:
            try:
                program, program_child = map(stack.enter_context, socket.socketpair())
                report, report_zygote = map(stack.enter_context, socket.socketpair())
            except OSError as error:
                raise SandboxError(f"no sockets can be made for a program: {error}") from error
            try:
                with self._sending:
                    socket.send_fds(
                        self._control, [b"fork"], [program_child.fileno(), report_zygote.fileno()]
                    )
            except OSError as error:
                if error.errno in _DISCONNECTED or isinstance(error, TimeoutError):
                    raise ZygoteGone(f"the process that starts programs died: {error}") from error
                raise SandboxError(f"a program cannot be handed over: {error}") from error
            program_child.close()
            report_zygote.close()
            yield program, report

    def ended(self) -> bool:
        """Whether it has died, or dies within half a second."""
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End it and all running programs. May be called twice."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # Releases a thread that is sending.
        with self._sending:
            self._control.close()
        try:
            # It ends by itself when its control socket closes, and takes its children along.
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _await_start(self) -> None:
        self._control.settimeout(_START_SECONDS)
        try:
            ready = self._control.recv(1 << 16)
        except OSError as error:
            raise ZygoteGone(f"the process that starts programs did not start: {error}") from error
        if not ready:
            self._raise_start_failure()
        report = json.loads(ready)
        self.restrictions: tuple[str, ...] = tuple(report["restrictions"])
        self._room = threading.BoundedSemaphore(report["programs"])
        if not report["seccomp"]:
            raise SandboxMissing(
                f"programs cannot be confined here: this kernel has no seccomp filters. {WITHOUT_PROGRAMS}"
            )

    def _raise_start_failure(self) -> None:
        try:
            output = self._process.communicate(timeout=5)[1].decode("utf-8", "replace").strip()
        except subprocess.TimeoutExpired:
            output = "it neither runs nor exits"
        code = self._process.returncode
        failure = "the process that starts programs did not start"
        if code is not None and code < 0:
            raise ZygoteGone(f"{failure}: it was ended by {signal_name(-code)}")
        raise SandboxError(f"{failure}: {output[-1000:]}")

    def _test(self) -> None:
        """Run probe programs against the restrictions. Raises SandboxUnsafe if one escapes."""
        ending = self._probe("probe()")
        if ending.raised:
            raise SandboxUnsafe(f"programs cannot be run safely here: {ending.raised[0][:2]}")
        if ending.value != []:
            raise SandboxUnsafe(
                f"programs cannot be run safely here: inside the sandbox this still works: {ending.value}"
            )
        # A system call of another ABI ends its process, so it needs its own program.
        ending = self._probe(f"foreign({platform.machine()!r})")
        if ending.value != "no other ABI" and "SIGSYS" not in str(ending.raised):
            raise SandboxUnsafe(
                "programs cannot be run safely here: inside the sandbox another ABI's system calls still work"
            )

    def _probe(self, call: str) -> Ending:
        with self.child() as (program, report):
            conversation = Conversation(program, report, {}, Limits(wall_seconds=_START_SECONDS), ())
            try:
                return conversation.run_program(
                    f"def execute_command():\n    return {call}", {}, compiled(_PROBE)
                )
            except ZygoteGone:
                raise
            except ProgramNotStarted as error:  # Says nothing about confinement: zygote or child was killed.
                raise ZygoteGone(f"the process that starts programs did not start: {error}") from error
            except SandboxError as error:
                raise SandboxUnsafe(f"programs cannot be run safely here: {error}") from error


# Runs inside the sandbox with all of Python, and lists what should fail but does not.
_PROBE = (_HERE / "inside" / "probe.py").read_text(encoding="utf-8")


@lru_cache(maxsize=32)
def compiled(prelude: str) -> str:
    """A prelude as the child reads it. It is trusted and for the same interpreter, so marshal is fine."""
    if not prelude:
        return ""
    return b64encode(marshal.dumps(compile(prelude, "<prelude>", "exec"))).decode("ascii")
