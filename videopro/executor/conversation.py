"""The host's half of one program's run: answer its calls, hold its budgets, learn how it ended.

Runs on the caller's thread, so that the host's functions do too. Nothing that comes from the program's
process is believed: sizes are checked before memory is given, values are decoded within bounds, and
anything else than the protocol ends the run. Knows sockets and limits; how the process came to be is
`pool`'s.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from videopro.executor.calls import Breach, Calls, Raised
from videopro.executor.ending import Ending, Use, failure
from videopro.executor.inside import wire
from videopro.executor.log import Told
from videopro.executor.outcome import Limits, SandboxError
from videopro.executor.text import shorten
from videopro.executor.things import Forged

_DUMP_LINE = re.compile(rb'File "<program>", line (\d{1,7}) in (\w{1,100}|<\w{1,20}>)')
# Seconds that a process has to end by itself: after its last word, and after it was told to stop.
_LEAVE = 2.0
_STOP = 1.0


class ZygoteGone(SandboxError):
    """The process that starts programs died, and the program with it."""


class _Ended(Exception):
    """The program's process closed its socket."""


class _Late(Exception):
    """The wall clock ran out."""


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
        self._calls = Calls(functions, limits, fatal)
        self._things = self._calls.things
        self._buffer = b""
        self._left = limits.wall_seconds
        self._armed = 0.0
        # Bounds of messages; a character takes up to six bytes of JSON.
        self._largest = {
            wire.CALL: limits.argument_bytes,
            wire.RESULT: limits.argument_bytes,
            wire.PRINT: 6 * limits.output_bytes + 64,
            wire.ERROR: 3 * 6 * limits.error_bytes + (1 << 16),
        }
        self.calls = self._calls.made
        self.output = ""
        self.use = Use()
        self._status = 0  # How its process exited; negative: by which signal.

    def hold(self, program: str, inputs: Mapping[str, Any], prelude: str) -> Ending:
        """Run the program to its end. Raises SandboxError when the machinery fails, and what is fatal."""
        with self._calls.counted():
            return self._hold(program, inputs, prelude)

    def _hold(self, program: str, inputs: Mapping[str, Any], prelude: str) -> Ending:
        try:
            packed = {
                name: self._things.pack(value, self._limits.result_bytes) for name, value in inputs.items()
            }
        except wire.TooLarge as error:
            raise SandboxError(f"an input cannot be given to a program: {error}") from error
        start = {
            "program": program,
            "inputs": packed,
            "functions": self._functions,
            "prelude": prelude,
            "limits": vars(self._limits),
        }
        try:
            self._send(wire.frame(wire.START, start))
            ending = self._talk()
        except Breach as breach:
            ending = failure(breach.kind, str(breach), breach.places)
            self._end(b"k")
        except Forged as error:
            ending = failure("ProtocolError", f"the program meddled with its own process: {error}")
            self._end(b"k")
        except _Late:
            dump = self._end(b"t")
            message = f"the program took more than {self._limits.wall_seconds:g} s, its calls not counted"
            ending = failure("WallLimit", message, _places(dump))
        except _Ended:
            dump, self._buffer = self._buffer, b""
            self._end(b"")
            ending = self._died(dump)
        except BaseException:
            self._end(b"k")
            raise
        else:
            self._end(b"")
        return ending

    # ---- messages -----------------------------------------------------------------------------------------

    def _talk(self) -> Ending:
        while True:
            kind, body = self._receive()
            try:
                content = wire.parse(body.decode("ascii"))
            except (ValueError, RecursionError) as error:
                raise Forged("a message that is none") from error
            if kind == wire.CALL:
                self._call(content)
            elif kind == wire.PRINT:
                self._print(content)
            elif kind == wire.RESULT:
                return Ending(self._things.unpack(content), ())
            else:
                return Ending(None, self._told(content))

    def _print(self, text: Any) -> None:
        if type(text) is not str:
            raise Forged("output that is no text")
        self.output += text
        if len(self.output) > self._limits.output_bytes:
            self.output = self.output[: self._limits.output_bytes]
            raise Breach(
                "OutputLimit", f"the program printed more than {self._limits.output_bytes:,} characters"
            )

    def _call(self, content: Any) -> None:
        if type(content) is not list or len(content) != 3 or type(content[2]) is not int:
            raise Forged("a call that is none")
        name, packed, line = content
        given = self._things.unpack(packed)
        try:
            message = wire.frame(wire.VALUE, self._calls.make(name, given, line))
        except Raised as raised:
            message = wire.frame(wire.RAISE, raised.told)
        except Breach as breach:
            self._stop(breach.kind, str(breach), line)
        self._send(message)

    def _stop(self, kind: str, message: str, line: int) -> NoReturn:
        """End a program that is over a budget, and let it unwind for a moment."""
        self._send(wire.frame(wire.STOP, [kind, message]))
        self._left = min(self._left, _STOP)
        places: tuple[tuple[int, str], ...] = ((line, ""),) if line > 0 else ()
        try:
            while True:
                got, body = self._receive()
                if got == wire.PRINT:
                    self._print(wire.parse(body.decode("ascii")))
                    continue
                if got == wire.ERROR:
                    told = self._told(wire.parse(body.decode("ascii")))
                    if told[0][0] == kind:
                        places = tuple(told[0][2])
                break
        except (_Ended, _Late, Forged, Breach, ValueError, RecursionError):
            pass  # It would not stop by itself: the end comes all the same.
        raise Breach(kind, message, places)

    def _told(self, content: Any) -> tuple[Told, ...]:
        told: list[Told] = []
        try:
            for kind, message, places in content[:3]:
                if type(kind) is not str or type(message) is not str:
                    raise Forged("an error that is none")
                where = [(line, function[:100]) for line, function in places[:10]]
                if not all(type(line) is int and type(name) is str for line, name in where):
                    raise Forged("an error that is none")
                # A class may be called anything; a type of error is one word.
                kind = kind if re.fullmatch(r"\w{1,100}", kind) else "Exception"
                told.append((kind, shorten(message, self._limits.error_bytes), where))
        except (TypeError, ValueError, KeyError) as error:
            raise Forged("an error that is none") from error
        if not told:
            raise Forged("an error that is none")
        return tuple(told)

    def _died(self, dump: bytes) -> Ending:
        """What a process that ended without a word died of."""
        status = self._status
        places = _places(dump)
        out_of_time = f"the program used more than its {self._limits.cpu_seconds:g} s of processor time"
        if status in (-signal.SIGVTALRM, -signal.SIGXCPU) or (
            status == -signal.SIGKILL and self.use.cpu_seconds >= self._limits.cpu_seconds
        ):
            return failure("CpuLimit", out_of_time, places)
        if status < 0:
            what = f"the program's process was ended by {signal.Signals(-status).name}"
        else:
            what = f"the program ended its own process with status {status}"
        if -status == signal.SIGSEGV:
            what += ", as after a recursion too deep for the machine's stack"
        return failure("Crashed", what, places)

    # ---- sockets ------------------------------------------------------------------------------------------

    def _send(self, message: bytes) -> None:
        begun = time.monotonic()
        self._arm()
        try:
            sent = self._program.send(message)
            while sent < len(message):
                self._left -= time.monotonic() - begun
                begun = time.monotonic()
                self._arm()
                message = message[sent:]
                sent = self._program.send(message)
        except BlockingIOError:
            raise _Late from None
        except OSError:
            raise _Ended from None
        finally:
            self._left -= time.monotonic() - begun

    def _receive(self) -> tuple[bytes, bytes]:
        size = wire.HEADER.size
        while True:
            if self._buffer[:1] in wire.DUMPS:
                self._drain()
                raise _Ended
            if len(self._buffer) >= size:
                kind, length = wire.HEADER.unpack_from(self._buffer)
                if length > self._largest.get(kind, -1):
                    raise Forged("a message of no known kind, or beyond its bounds")
                if len(self._buffer) >= size + length:
                    body = self._buffer[size : size + length]
                    self._buffer = self._buffer[size + length :]
                    return kind, body
                self._fill(size + length)
            else:
                self._fill(size)

    def _fill(self, count: int) -> None:
        parts = [self._buffer]
        have = len(self._buffer)
        while have < count:
            begun = time.monotonic()
            self._arm()
            try:
                part = self._program.recv(max(1 << 13, min(count - have, 1 << 20)))
            except BlockingIOError:
                raise _Late from None
            except OSError:
                part = b""
            finally:
                self._left -= time.monotonic() - begun
            if not part:
                raise _Ended
            parts.append(part)
            have += len(part)
        self._buffer = b"".join(parts)

    def _arm(self) -> None:
        """Let the kernel end a wait on the program's socket when the time is over: two system calls fewer for
        each message than Python's own time-outs. It is told anew when a tenth of what it knows has passed."""
        if self._left <= 0:
            raise _Late
        if not 0.9 * self._armed <= self._left <= self._armed:
            self._armed = self._left
            whole, rest = divmod(self._left, 1.0)
            until = struct.pack("@ll", int(whole), max(int(rest * 1e6), 1))
            self._program.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, until)
            self._program.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, until)

    def _drain(self, seconds: float = _STOP) -> bytes:
        """What a dying process still writes, at most 64 KiB of it."""
        until = time.monotonic() + seconds
        while len(self._buffer) < 1 << 16:
            left = until - time.monotonic()
            if left <= 0:
                break
            self._left = left
            try:
                self._arm()
                part = self._program.recv(1 << 16)
            except (_Late, OSError):
                break
            if not part:
                break
            self._buffer += part
        return self._buffer

    def _end(self, order: bytes) -> bytes:
        """Wait for the process's end, having ordered it if need be. Returns what it dumped of its stack."""
        dump = b""
        self._order(order)
        if order == b"t":
            dump = self._drain()
            self._order(b"k")
        try:
            self._report.settimeout(_LEAVE)
            try:
                ended = self._report.recv(1 << 12)
            except TimeoutError:  # It said its last word, and stays.
                self._order(b"k")
                self._report.settimeout(30.0)
                ended = self._report.recv(1 << 12)
        except TimeoutError:
            raise SandboxError("the process that starts programs does not answer") from None
        except OSError:
            ended = b""
        if not ended:
            raise ZygoteGone("the process that starts programs died")
        told = json.loads(ended)
        if isinstance(told, str):
            raise SandboxError(f"no process can be started for a program: {told}")
        self._status, cpu_seconds, peak_bytes = told
        self.use = Use(cpu_seconds, peak_bytes)
        return dump

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):  # It has ended already, and the report of it waits to be read.
            self._report.send(order)


def _places(dump: bytes) -> tuple[tuple[int, str], ...]:
    """The program's lines in a dump of faulthandler's, outermost first."""
    found = [(int(line), name.decode("ascii", "replace")) for line, name in _DUMP_LINE.findall(dump)]
    return tuple(reversed(found[:10]))
