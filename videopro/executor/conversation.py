"""The host's half of one program's run: answer its calls, enforce its budgets, find out how it ended.

It runs on the caller's thread, so host functions do too. Nothing from the program's process is trusted:
values are decoded within bounds, and anything outside the protocol ends the run. A breached budget decides
the outcome, whatever the program did afterwards. `channel` handles the socket, `pool` the processes.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from videopro.errors import BudgetExceeded, signal_name, when_cancelled
from videopro.executor.calls import HostCalls, ProgramException, ProtocolViolation
from videopro.executor.channel import Channel, ChannelClosed, DeadlinePassed
from videopro.executor.inside import wire
from videopro.executor.inside.allowed import GRACE
from videopro.executor.outcome import (
    Ending,
    ErrorReport,
    Limits,
    ResourceUse,
    SandboxError,
    ZygoteGone,
    failure,
    shorten,
)

_DUMP_LINE = re.compile(rb'File "<program>", line (\d{1,7}) in (\w{1,100}|<\w{1,20}>)')
# Seconds that a process has to end by itself: after its last message, and after it was asked to stop.
_EXIT_SECONDS = 2.0
_STOP_SECONDS = 1.0
# Seconds within which the zygote must report a process that it was asked to end.
_KILL_SECONDS = 30.0


class ProgramNotStarted(SandboxError):
    """The process ended before the program began, so another process may run it."""


class Conversation:
    """One program's run. `program` and `report`: the host's ends of the two sockets."""

    def __init__(
        self,
        program: socket.socket,
        report: socket.socket,
        functions: Mapping[str, Callable[..., Any]],
        limits: Limits,
        fatal: tuple[type[BaseException], ...],
    ) -> None:
        self._program = program
        self._report = report
        self._functions = tuple(functions)
        self._limits = limits
        self._calls = HostCalls(functions, limits, fatal)
        self._handles = self._calls.handles
        self.calls = self._calls.lines
        self.output = ""
        self.use = ResourceUse()
        self.zygote_died = False
        """Whether the process that starts programs died or stopped answering during the run."""
        self._begun = False
        self._status = 0  # The process's exit status; negative: the signal that ended it.

    @property
    def called(self) -> bool:
        """Whether it called a host function, even if the call did not finish."""
        return self._calls.called

    def run_program(self, program: str, inputs: Mapping[str, Any], prelude: str) -> Ending:
        """Run the program to its end.

        Raises ZygoteGone or ProgramNotStarted if its outcome is unknown, another SandboxError if the sandbox
        fails, the `fatal` exceptions, and Cancelled. However it ends, its process has ended.
        """
        self._channel = Channel(self._program, self._limits)
        with self._calls.counted(), when_cancelled(self._channel.wake):
            return self._converse(self._start(program, inputs, prelude))

    def _start(self, program: str, inputs: Mapping[str, Any], prelude: str) -> bytes:
        size = self._limits.result_bytes
        try:
            packed = {name: self._handles.pack(value, size) for name, value in inputs.items()}
        except wire.TooLarge as error:
            raise SandboxError(f"an input cannot be given to a program: {error}") from error
        start = {
            "program": program,
            "inputs": packed,
            "functions": self._functions,
            "prelude": prelude,
            "limits": vars(self._limits),
        }
        return wire.frame(wire.START, start)

    def _converse(self, start: bytes) -> Ending:
        try:
            self._channel.send(start)
            self._ready()
            ending = self._exchange()
        except BudgetExceeded as breach:
            self._end_decided(b"k")
            return failure(breach.kind, str(breach), breach.positions)
        except ProtocolViolation as error:
            self._end_decided(b"k")
            return failure("ProtocolError", f"the program meddled with its own process: {error}")
        except DeadlinePassed:
            if not self._begun:
                self._end(b"k")
                raise ProgramNotStarted("no process was ready for a program in time") from None
            dump = self._end_decided(b"t")
            message = f"the program took more than {self._limits.wall_seconds:g} s, its calls not counted"
            return failure("WallLimit", message, _positions(dump))
        except ChannelClosed:
            dump = self._channel.unread()
            self._end(b"")
            return self._ended_early(dump)
        except BaseException:
            with contextlib.suppress(SandboxError):
                self._end_decided(b"k")
            raise
        self._end_decided(b"")
        return self._within_time(ending)

    def _ready(self) -> None:
        """Wait until the process is confined. The program has not run yet, so these messages can be
        trusted."""
        kind, body = self._channel.receive()
        if kind == wire.SETUP_FAILED:
            reason = wire.parse(body.decode("ascii"), self._limits.digits)
            raise SandboxError(f"a program cannot be confined: {reason}")
        if kind != wire.READY:
            raise ProtocolViolation("a message before the first")
        self._begun = True
        self._channel.begin()

    # ---- messages -----------------------------------------------------------------------------------------

    def _exchange(self) -> Ending:
        while True:
            kind, content = self._message()
            if kind == wire.CALL:
                self._call(content)
            elif kind == wire.PRINT:
                self._print(content)
            elif kind == wire.RESULT:
                return Ending(self._handles.unpack(content), ())
            elif kind == wire.ERROR:
                return Ending(None, self._parse_errors(content))
            else:
                raise ProtocolViolation("a message out of turn")

    def _message(self) -> tuple[bytes, Any]:
        kind, body = self._channel.receive()
        try:
            return kind, wire.parse(body.decode("ascii"), self._limits.digits)
        except (ValueError, RecursionError) as error:
            raise ProtocolViolation("a message that is none") from error

    def _print(self, text: Any) -> None:
        if type(text) is not str or not text:
            raise ProtocolViolation("output that is no text")
        self.output += text
        most = self._limits.output_bytes
        if len(self.output) > most:
            self.output = self.output[:most]
            self._unwind("OutputLimit", f"the program printed more than {most:,} characters", 0)

    def _call(self, content: Any) -> None:
        if type(content) is not list or len(content) != 3 or type(content[2]) is not int:
            raise ProtocolViolation("a call that is none")
        name, packed, line = content
        if not 0 < line <= self._limits.source_bytes:
            line = 0  # There is no such line.
        arguments = self._handles.unpack(packed)
        before = self._calls.seconds
        try:
            message = wire.frame(wire.VALUE, self._calls.make(name, arguments, line))
        except ProgramException as raised:
            message = wire.frame(wire.RAISE, raised.payload)
        except BudgetExceeded as breach:
            self._channel.extend(self._calls.seconds - before)
            self._channel.send(wire.frame(wire.STOP, [breach.kind, str(breach)]))
            self._unwind(breach.kind, str(breach), line)
        self._channel.extend(self._calls.seconds - before)
        self._channel.send(message)

    def _unwind(self, kind: str, message: str, line: int) -> NoReturn:
        """End a program that exceeded a budget, giving it a moment to report where."""
        self._channel.shorten_deadline(_STOP_SECONDS)
        positions: tuple[tuple[int, str], ...] = ((line, ""),) if line > 0 else ()
        # A program that does not stop by itself is killed anyway.
        with contextlib.suppress(ChannelClosed, DeadlinePassed, ProtocolViolation):
            kind_received, content = self._message()
            while kind_received == wire.PRINT:
                if type(content) is str:
                    self.output = (self.output + content)[: self._limits.output_bytes]
                kind_received, content = self._message()
            if kind_received == wire.ERROR:
                errors = self._parse_errors(content)
                if errors[0][0] == kind:
                    positions = tuple(errors[0][2])
        raise BudgetExceeded(kind, message, positions)

    def _parse_errors(self, content: Any) -> tuple[ErrorReport, ...]:
        errors: list[ErrorReport] = []
        try:
            # Bounded again here: the program's process may have been tampered with.
            for kind, message, positions in content[:3]:
                if type(kind) is not str or type(message) is not str:
                    raise ProtocolViolation("an error that is none")
                where = [(line, function[:100]) for line, function in positions[:10]]
                if not all(type(line) is int and type(name) is str for line, name in where):
                    raise ProtocolViolation("an error that is none")
                # A class may have any name; an error type is a single word.
                kind = kind if re.fullmatch(r"\w{1,100}", kind) else "Exception"
                errors.append((kind, shorten(message, self._limits.error_bytes), where))
        except (TypeError, ValueError, KeyError) as error:
            raise ProtocolViolation("an error that is none") from error
        if not errors:
            raise ProtocolViolation("an error that is none")
        return tuple(errors)

    def _ended_early(self, dump: bytes) -> Ending:
        """Why a process ended without a last message."""
        status = self._status
        if not self._begun:
            raise ProgramNotStarted(f"a program's process ended before the program began ({_exit(status)})")
        # A program may also send itself the signals that enforce its time limit.
        used = self.use.cpu_seconds
        timers = status in (-signal.SIGVTALRM, -signal.SIGXCPU) and used > 0.5 * self._limits.cpu_seconds
        if timers or (status == -signal.SIGKILL and used >= self._limits.cpu_seconds):
            return failure("CpuLimit", self._out_of_time(), _positions(dump))
        message = f"the program's process was ended by {_exit(status)}"
        if status >= 0:
            message = f"the program ended its own process with status {status}"
        if -status == signal.SIGSEGV:
            message += ", as after a recursion too deep for the machine's stack"
        return failure("Crashed", message, _positions(dump))

    def _within_time(self, ending: Ending) -> Ending:
        """The ending that a program reported, or CpuLimit if it swallowed that: the kernel knows its time."""
        if self.use.cpu_seconds <= self._limits.cpu_seconds + GRACE:
            return ending
        if ending.raised and ending.raised[0][0] == "CpuLimit":
            return ending
        return failure("CpuLimit", self._out_of_time())

    def _out_of_time(self) -> str:
        return f"the program used more than its {self._limits.cpu_seconds:g} s of processor time"

    # ---- the end of the process ---------------------------------------------------------------------------

    def _end_decided(self, order: bytes) -> bytes:
        """`_end` for a run whose outcome is known, and stays the same if the zygote no longer answers."""
        try:
            return self._end(order)
        except ZygoteGone:
            self.zygote_died = True
            return b""

    def _end(self, order: bytes) -> bytes:
        """Wait for the process to end, ordering it to if necessary. Returns the dump of its stack."""
        dump = b""
        self._order(order)
        if order == b"t":
            self._channel.drain(_STOP_SECONDS)
            dump = self._channel.unread()
            self._order(b"k")
        try:
            self._report.settimeout(_EXIT_SECONDS)
            try:
                ended = self._report.recv(1 << 12)
            except TimeoutError:  # It sent its last message but does not exit.
                self._order(b"k")
                self._report.settimeout(_KILL_SECONDS)
                ended = self._report.recv(1 << 12)
        except TimeoutError:
            raise ZygoteGone("the process that starts programs does not respond") from None
        except OSError:
            ended = b""
        if not ended:
            if not self._begun:
                raise ProgramNotStarted("the process that starts programs did not take a program")
            raise ZygoteGone("the process that starts programs died")
        report = json.loads(ended)
        if isinstance(report, str):
            raise SandboxError(f"no process can be started for a program: {report}")
        self._status, cpu_seconds, peak_bytes = report
        self.use = ResourceUse(cpu_seconds, peak_bytes)
        return dump

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):  # It has already ended, and its report is waiting to be read.
            self._report.send(order)


def _exit(status: int) -> str:
    return signal_name(-status) if status < 0 else f"status {status}"


def _positions(dump: bytes) -> tuple[tuple[int, str], ...]:
    """The program's lines in a dump by faulthandler, outermost first."""
    positions = [(int(line), name.decode("ascii", "replace")) for line, name in _DUMP_LINE.findall(dump)]
    return tuple(reversed(positions[:10]))
