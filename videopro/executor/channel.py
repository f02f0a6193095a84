"""The host's end of a program's socket: whole messages of bounded size, all before one deadline.

Nothing that comes in is trusted: sizes are checked before memory is allocated, and messages are counted.
`conversation` handles their content.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress

from videopro.errors import check_cancelled
from videopro.executor.calls import ProtocolViolation
from videopro.executor.inside import wire
from videopro.executor.outcome import Limits

# Seconds until a process must be ready to begin.
_START_SECONDS = 30.0
# Seconds after which a wait checks the clock again.
_SLICE = 1.0
# Bytes that a dying process may still write.
_DUMP_BYTES = 1 << 16


class ChannelClosed(Exception):
    """The program's process closed its socket."""


class DeadlinePassed(Exception):
    """The deadline has passed."""


class Channel:
    """Messages to and from one program's process.

    The deadline is `limits.wall_seconds` after `begin`. Only `extend` moves it forward, whatever the time was
    spent on: waiting, reading or parsing.
    """

    def __init__(self, program: socket.socket, limits: Limits) -> None:
        self._socket = program
        self._seconds = limits.wall_seconds
        self._deadline = time.monotonic() + _START_SECONDS
        self._armed = 0.0
        self._buffer = b""
        # Bounds on messages; a character takes up to six bytes of JSON.
        self._largest = {
            wire.READY: 8,
            wire.SETUP_FAILED: 1 << 12,
            wire.CALL: limits.argument_bytes,
            wire.RESULT: limits.argument_bytes,
            wire.PRINT: 6 * limits.output_bytes + 64,
            wire.ERROR: 3 * 6 * limits.error_bytes + (1 << 16),
        }
        # Output comes with a call (including one over the budget) or with the last message.
        self._prints = limits.calls + 2

    def begin(self) -> None:
        """Start the program's time."""
        self._deadline = time.monotonic() + self._seconds

    def extend(self, seconds: float) -> None:
        """Move the deadline forward by time that the program did not use."""
        self._deadline += seconds

    def shorten_deadline(self, seconds: float) -> None:
        """Move the deadline to at most this many seconds from now."""
        self._deadline = min(self._deadline, time.monotonic() + seconds)

    def wake(self) -> None:
        """End a wait for the process, in any thread: nothing comes from it any more."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def send(self, message: bytes) -> None:
        """Send a whole message. To a process that is gone nothing is sent, and its last messages can still be
        received. Raises DeadlinePassed."""
        # A view, because slicing bytes would copy the remainder at each step.
        left = memoryview(message)
        while left:
            self._arm()
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                continue
            except OSError:
                return

    def receive(self) -> tuple[bytes, bytes]:
        """The next message: kind and text. Raises DeadlinePassed, ChannelClosed, ProtocolViolation and
        Cancelled."""
        size = wire.HEADER.size
        while True:
            if self._buffer[:1] in wire.DUMPS:
                # By the program's own deadline: on a busy machine the dying process may have to wait.
                self._read_dump()
                raise ChannelClosed
            if len(self._buffer) < size:
                self._fill(size)
                continue
            kind, length = wire.HEADER.unpack_from(self._buffer)
            # Before the body is read: a length alone must not make the host allocate memory.
            self._count(kind, length)
            if len(self._buffer) < size + length:
                self._fill(size + length)
            body = self._buffer[size : size + length]
            self._buffer = self._buffer[size + length :]
            # A program that sends its messages just fast enough would otherwise never meet a wait, and so no
            # deadline.
            if time.monotonic() > self._deadline:
                raise DeadlinePassed
            return kind, body

    def drain(self, seconds: float) -> None:
        """Read what a dying process still writes, for at most this long."""
        self._deadline = time.monotonic() + seconds
        with suppress(DeadlinePassed):
            self._read_dump()

    def unread(self) -> bytes:
        """What was received after the last message."""
        unread, self._buffer = self._buffer, b""
        return unread

    def _read_dump(self) -> None:
        while len(self._buffer) < _DUMP_BYTES and (part := self._receive(_DUMP_BYTES)):
            self._buffer += part

    def _count(self, kind: bytes, length: int) -> None:
        if length > self._largest.get(kind, -1):
            raise ProtocolViolation("a message of no known kind, or beyond its bounds")
        if kind == wire.PRINT:
            self._prints -= 1
            if self._prints < 0:
                raise ProtocolViolation("output reported more often than there can be calls")

    def _fill(self, count: int) -> None:
        parts = [self._buffer]
        have = len(self._buffer)
        while have < count:
            part = self._receive(max(1 << 13, min(count - have, 1 << 20)))
            if not part:
                self._buffer = b"".join(parts)
                raise ChannelClosed
            parts.append(part)
            have += len(part)
        self._buffer = b"".join(parts)

    def _receive(self, most: int) -> bytes:
        """Some bytes; empty if the process has closed its socket. Raises DeadlinePassed."""
        while True:
            self._arm()
            try:
                part = self._socket.recv(most)
            except BlockingIOError:
                continue
            except OSError:
                part = b""
            if not part:
                # `wake` looks the same as the end of the process.
                check_cancelled()
            return part

    def _arm(self) -> None:
        """Let the kernel end a wait on the socket by the deadline: two system calls fewer per message than
        Python's own timeouts. The timeout is set again only near the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed
        timeout = min(left, _SLICE)
        if self._armed > timeout or self._armed < 0.5 * timeout:
            self._armed = timeout
            seconds, fraction = divmod(timeout, 1.0)
            until = struct.pack("@ll", int(seconds), max(int(fraction * 1e6), 1))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, until)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, until)
