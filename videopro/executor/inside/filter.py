"""The seccomp filter of a program's process, as classic BPF for x86_64 and aarch64.

An allow-list: computing, its memory (never executable), its one socket, its own signals, the clock.
Everything else returns EPERM, so that a program that reaches for the system sees an ordinary
PermissionError with a line. `confinement` installs the filter. The numbers are Linux's own
(linux/seccomp.h, linux/filter.h, linux/audit.h; asm/unistd_64.h of x86, asm-generic/unistd.h for aarch64).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ALLOW = 0x7FFF0000
ERRNO_EPERM = 0x00050000 | 1
KILL_PROCESS = 0x80000000

PROT_EXEC = 4
MAP_SHARED = 1
MAP_HUGETLB = 0x40000
FUTEX_PRIVATE = 128
OF_ANOTHER = 1 << 31
"""The sign bit of a clock id: the clock belongs to the process or descriptor that the id names."""
SOCKET_FD = 3
"""The only descriptor that a program's process may read and write."""

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

# Where struct seccomp_data holds what; both machines are little-endian, so an argument's low word comes
# first.
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

_ANY_PROCESS = 0x7FFFFFFF  # No process has this id.


class Machine(NamedTuple):
    """The audit id and the system call numbers of a processor architecture."""

    audit: int
    calls: dict[str, int]
    foreign: int | None
    """System call numbers from here on belong to another ABI (x32)."""


_FREE = (
    "brk",
    "munmap",
    "mremap",
    "madvise",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "restart_syscall",
    "sched_yield",
    "nanosleep",
    "gettimeofday",
    "getrandom",
    "getpid",
    "gettid",
    "getrusage",
    "exit",
    "exit_group",
)

# Number on x86_64, number on aarch64.
_NUMBERS = {
    "read": (0, 63),
    "write": (1, 64),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "tgkill": (234, 131),
    "brk": (12, 214),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrusage": (98, 165),
    "exit": (60, 93),
    "exit_group": (231, 94),
}

MACHINES = {
    "x86_64": Machine(0xC000003E, {name: numbers[0] for name, numbers in _NUMBERS.items()}, 0x40000000),
    "aarch64": Machine(0xC00000B7, {name: numbers[1] for name, numbers in _NUMBERS.items()}, None),
}


def program(machine: str) -> bytes:
    """The filter as an array of struct sock_filter, for any process; `of_process` binds it to one.

    Raises KeyError for an unknown machine.
    """
    this = MACHINES[machine]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        # First of all: under another architecture the same numbers are other calls.
        (_EQUAL, 1, 0, this.audit),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if this.foreign is not None:
        code += [(_AT_LEAST, 0, 1, this.foreign), (_RETURN, 0, 0, KILL_PROCESS)]

    def argument(number: int) -> tuple[int, int, int, int]:
        # The low word. The kernel takes a descriptor, a process id and protection bits from it alone.
        return (_LOAD, 0, 0, _ARGUMENTS + 8 * number)

    def guarded(name: str, *checks: tuple[int, int, int, int]) -> None:
        """Allow a call if all checks hold: each loads an argument and jumps over a refusal."""
        code.append((_EQUAL, 0, len(checks) + 1, this.calls[name]))
        code.extend(checks)
        code.append((_RETURN, 0, 0, ALLOW))

    refuse = (_RETURN, 0, 0, ERRNO_EPERM)
    for name in ("read", "write"):
        guarded(name, argument(0), (_EQUAL, 1, 0, SOCKET_FD), refuse)
    # Anonymous memory only (a descriptor of -1), its own, and never to be executed.
    guarded(
        "mmap",
        argument(4),
        (_EQUAL, 1, 0, 0xFFFFFFFF),
        refuse,
        argument(2),
        (_ANY_BIT, 0, 1, PROT_EXEC),
        refuse,
        argument(3),
        # Huge pages come from a pool that all share.
        (_ANY_BIT, 0, 1, MAP_SHARED | MAP_HUGETLB),
        refuse,
    )
    # On a page of a file that another program has mapped too, such as a library's, one could wake the other.
    guarded("futex", argument(1), (_ANY_BIT, 1, 0, FUTEX_PRIVATE), refuse)
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        guarded(name, argument(0), (_ANY_BIT, 0, 1, OF_ANOTHER), refuse)
    guarded("mprotect", argument(2), (_ANY_BIT, 0, 1, PROT_EXEC), refuse)
    # To itself: how abort() and faulthandler end the process.
    guarded("tgkill", argument(0), (_EQUAL, 1, 0, _ANY_PROCESS), refuse)
    for name in _FREE:
        code += [(_EQUAL, 0, 1, this.calls[name]), (_RETURN, 0, 0, ALLOW)]
    code.append(refuse)
    return b"".join(_instruction(*fields) for fields in code)


def of_process(code: bytes, pid: int) -> bytes:
    """The filter for the process `pid`, made from the result of `program`."""
    return code.replace(_instruction(_EQUAL, 1, 0, _ANY_PROCESS), _instruction(_EQUAL, 1, 0, pid))


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
