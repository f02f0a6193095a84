"""The process that forks one locked child for each program.

Started by exec with an empty environment, never forked from the process that holds the models. It imports
what programs may use, gives up what it can (`confinement.confine_zygote`), and then answers one kind of
request on its control socket: a datagram with two descriptors, the program's socket and a report socket. The
program's socket goes to a child, which was forked while the last program ran and waits for it; on the report
socket the host may ask for the child's end ("t": with a dump of its stack, "k": at once; a closed socket
means "k" too), and reads one line of JSON when the child has ended. Only this process kills and reaps, so
that no signal can hit a process id that has been reused.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import platform
import resource
import selectors
import signal
import socket
import sys
from typing import Any

from . import child, confinement
from .allowed import IMPORTABLE_MODULES, LATE
from .wire import SETUP_FAILED, frame

# Its own descriptors; each program takes one more.
_OWN_DESCRIPTORS = 24
_MOST_DESCRIPTORS = 4096
# The codecs that a str method may name.
_CODECS = ("encodings.ascii", "encodings.latin_1", "encodings.utf_8", "encodings.utf_16")


class Zygote:
    """The loop of the zygote. `control`: the socket to the host; `host`: the host's process id."""

    def __init__(self, control: socket.socket, host: int) -> None:
        self.control = control
        self.filter = confinement.filter_program(platform.machine())
        self.pid = os.getpid()
        self.reports: dict[int, socket.socket] = {}
        self.waiting: tuple[int, socket.socket] | None = None  # A child without a program, and a link to it.
        self.selector = selectors.DefaultSelector()
        self.selector.register(control, selectors.EVENT_READ, "control")
        # The control socket may stay open in a fork of the host; a pidfd reports the end of the host itself.
        with contextlib.suppress(OSError):
            self.selector.register(os.pidfd_open(host), selectors.EVENT_READ, "host")
        self.woken, waker = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self.selector.register(self.woken, selectors.EVENT_READ, "children")
        self.waker = waker
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        unlimited = most == resource.RLIM_INFINITY
        self.descriptors = _MOST_DESCRIPTORS if unlimited else min(most, _MOST_DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, most))

    def prepare(self) -> dict[str, Any]:
        """Import, then confine itself. Returns what is reported to the host: the restrictions in force,
        whether there is seccomp, and how many programs can run at once."""
        # Without OpenSSL, whose tables every fork would copy, hashlib has Python's own digests.
        sys.modules["_hashlib"] = None  # type: ignore[assignment]
        # After a fork, threading and logging reset locks that other threads held. There are none here, and it
        # took a seventh of a program's time.
        register, os.register_at_fork = os.register_at_fork, lambda **_: None
        for name in (*IMPORTABLE_MODULES, *LATE, *_CODECS):
            importlib.import_module(name)
        os.register_at_fork = register
        _reset_signals()
        child.warm_up()
        self.base = confinement.address_space()
        restrictions = confinement.confine_zygote()
        gc.disable()
        gc.collect()
        # Collections in a child would write to the objects' headers, and so copy the pages that it shares.
        gc.freeze()
        return {
            "restrictions": restrictions,
            "seccomp": confinement.has_seccomp(),
            "programs": max(self.descriptors - _OWN_DESCRIPTORS, 1),
        }

    def serve(self) -> None:
        """Fork, kill and reap until the host is gone."""
        while True:
            for key, _ in self.selector.select():
                if key.data == "control":
                    if not self._request():
                        return
                elif key.data == "host":
                    return
                elif key.data == "children":
                    self._reap()
                elif self.reports.get(key.data) is key.fileobj:  # Not reaped a moment ago.
                    self._kill(key.data)

    def _request(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self.control, 16, 2)
        if not message:
            return False
        if len(descriptors) != 2:  # Out of descriptors, the kernel drops them; the host sees its ends closed.
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        program, report = descriptors[0], socket.socket(fileno=descriptors[1])
        try:
            pid = self._hand_over(program)
            self.selector.register(report, selectors.EVENT_READ, pid)
            self.reports[pid] = report
        except OSError as error:
            with contextlib.suppress(OSError):  # The host may have given this program up.
                report.send(json.dumps(str(error)).encode("ascii"))
            report.close()
            return True
        finally:
            os.close(program)
        # Forking took half of a program's time, so the next child is forked while this program runs.
        with contextlib.suppress(OSError):
            self._fork()
        return True

    def _hand_over(self, program: int) -> int:
        """Give a program's socket to a child. Returns its process id; raises OSError if there is none."""
        for trial in (1, 2):
            if self.waiting is None:
                self._fork()
            assert self.waiting is not None
            (pid, link), self.waiting = self.waiting, None
            with link:
                try:
                    socket.send_fds(link, [b"p"], [program])
                except OSError:  # It died while it waited, for lack of memory for instance.
                    if trial == 2:
                        raise
                else:
                    return pid
        raise AssertionError("unreachable")

    def _fork(self) -> None:
        """Fork a child that waits for a program. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                pid = os.fork()
            except OSError:
                ours.close()
                raise
            if pid == 0:
                self._become_child(theirs.fileno())
        self.waiting = pid, ours

    def _become_child(self, link: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Nothing of the zygote's stays open; the program's socket replaces the one to the zygote.
            os.dup2(link, confinement.SOCKET_FD)
            os.closerange(confinement.SOCKET_FD + 1, self.descriptors)
            confinement.die_with(self.pid)
            confine = confinement.Confinement(self.filter)
            child.rehearse()
            with socket.socket(fileno=confinement.SOCKET_FD) as waiting:
                _, (program,), _, _ = socket.recv_fds(waiting, 1, 1)
                os.dup2(program, confinement.SOCKET_FD)
                os.close(program)
                waiting.detach()
            child.main(confine, self.base)
        except BaseException as error:  # A restriction could not be applied: report it, and run nothing.
            os.write(confinement.SOCKET_FD, frame(SETUP_FAILED, f"{type(error).__name__}: {error}"[:500]))
        finally:
            os._exit(child.BROKEN)

    def _kill(self, pid: int) -> None:
        try:
            order = self.reports[pid].recv(1)
        except OSError:
            order = b""
        os.kill(pid, signal.SIGVTALRM if order == b"t" else signal.SIGKILL)
        if not order:
            self.selector.unregister(self.reports[pid])

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.woken, 4096)
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            report = self.reports.pop(pid, None)
            if report is None:  # It was waiting for a program, or died when it was handed one.
                if self.waiting is not None and self.waiting[0] == pid:
                    self.waiting[1].close()
                    self.waiting = None
                continue
            if report in self.selector.get_map():
                self.selector.unregister(report)
            ended = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]
            with contextlib.suppress(OSError):  # The host may have given this program up.
                report.send(json.dumps(ended).encode("ascii"))
            report.close()


def _reset_signals() -> None:
    """Reset signals to their defaults: a host in the background passes on the ones it ignores."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, handler)


def main(descriptor: int, host: int) -> None:
    """Run as `python -c` with the descriptor of the control socket and the host's process id."""
    if os.getppid() != host:
        return
    os.set_inheritable(descriptor, False)
    zygote = Zygote(socket.socket(fileno=descriptor), host)
    ready = zygote.prepare()
    sys.path.clear()
    zygote.control.send(json.dumps(ready).encode("ascii"))
    zygote.serve()
