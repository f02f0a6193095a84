"""What the start-up self-test lets loose behind the walls: every attempt in here must fail.

Runs as a prelude, with all of Python's modules and no restraint but the kernel's. `probe` returns the names
of the attempts that worked, which must be none. Each is a thing that the walls other than seccomp would let
pass or that the zygote itself could do, so that no other reason explains its failing.
"""

import os
import signal
import sys

socket = sys.modules["_socket"]
ctypes = sys.modules["ctypes"]


def _execute_memory() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    # Private and anonymous, first with and then by way of asking for the right to execute.
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
    "system's name": lambda: os.uname(),
    "scheduling": lambda: os.sched_getaffinity(0),
}


def probe() -> list[str]:
    """The attempts that worked."""
    worked = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
        except PermissionError:
            continue
        except Exception as error:
            # Another failure is no proof of a wall.
            worked.append(f"{name} ({error!r})")
            continue
        worked.append(name)
    return worked
