"""The program that the start-up self-test runs inside the sandbox: every attempt in here must fail.

Runs as a prelude, with all of Python's modules and no restraint but the kernel's. `probe` returns the names
of the attempts that worked; there must be none. Each is something that the restrictions other than seccomp
would permit, or that the zygote itself could do, so that nothing else explains why it fails.
"""

import ctypes
import os
import signal
import struct
import sys
import time

socket = sys.modules["_socket"]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p


def _refused(result: int) -> None:
    """Raise libc's error for a call that failed."""
    if result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "refused")


class _Message(ctypes.Structure):
    """struct msghdr"""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_size", ctypes.c_uint),
        ("parts", ctypes.c_void_p),
        ("part_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


def _pass_descriptor() -> None:
    # struct cmsghdr: a length, SOL_SOCKET, SCM_RIGHTS; and the one descriptor.
    control = ctypes.create_string_buffer(struct.pack("@Nii", 20, 1, 1) + struct.pack("@i", 3), 24)
    message = _Message(control=ctypes.cast(control, ctypes.c_void_p), control_size=24)
    _refused(libc.sendmsg(3, ctypes.byref(message), 0))


def _shared_memory() -> None:
    _refused(libc.mmap(None, ctypes.c_size_t(4096), 3, 0x21, -1, ctypes.c_long(0)))


def _execute_memory() -> None:
    # Private and anonymous: first mapped executable, then made executable afterwards.
    if libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_long(0)) != ctypes.c_void_p(-1).value:
        return
    page = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
    if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(4096), 5) != 0:
        raise PermissionError


ATTEMPTS = {
    "open": lambda: os.open("/", os.O_RDONLY),
    "list": lambda: os.listdir("/"),
    "socket": lambda: socket.socket(),
    "fork": lambda: os.fork(),
    "exec": lambda: os.execv(sys.executable, ["python"]),
    "read from another descriptor": lambda: os.read(0, 1),
    "write to another descriptor": lambda: os.write(2, b"x"),
    "duplicate a descriptor": lambda: os.dup(3),
    "pipe": lambda: os.pipe(),
    "signal the parent": lambda: os.kill(1, 0),
    "send a signal": lambda: signal.pidfd_send_signal(3, 0),
    "executable memory": _execute_memory,
    "pass a descriptor": _pass_descriptor,
    "receive a descriptor": lambda: _refused(libc.recvmsg(3, None, 0)),
    "shared memory": _shared_memory,
    "System V memory": lambda: _refused(libc.shmget(0, ctypes.c_size_t(4096), 0o600)),
    "another process's clock": lambda: time.clock_gettime((~1 << 3) | 2),
    "a file in memory": lambda: os.memfd_create("x"),
    "another process's memory": lambda: _refused(libc.process_vm_writev(1, None, 0, None, 0, 0)),
    "system's name": lambda: os.uname(),
    "scheduling": lambda: os.sched_getaffinity(0),
}


def probe() -> list[str]:
    """The attempts that worked."""
    worked = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()  # type: ignore[no-untyped-call]
        except PermissionError:
            continue
        except Exception as error:
            # Any other failure does not prove a restriction.
            worked.append(f"{name} ({error!r})")
            continue
        worked.append(name)
    return worked


def foreign(machine: str) -> str:
    """Make a system call with another ABI's number: it ends this process if the filter is in force."""
    if machine != "x86_64":
        return "no other ABI"
    libc.syscall(0x40000000 + 39)  # x32's getpid
    return "another ABI answered"
