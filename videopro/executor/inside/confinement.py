"""Confinement: the rights that the zygote gives up once, and each program's process before its program runs;
and its seccomp filter, as classic BPF for x86_64 and aarch64.

Seccomp is mandatory; the others (Landlock, namespaces, an empty root, another user) are set up where the
kernel supports them, and `confine_zygote` returns which. Linux only, through libc, with nothing to install.

The filter is an allow-list: computing, its memory (never executable), its one socket, its own signals, the
clock. Everything else returns EPERM, so that a program that reaches for the system sees an ordinary
PermissionError with a line. The numbers are Linux's own (linux/seccomp.h, linux/filter.h, linux/audit.h;
asm/unistd_64.h of x86, asm-generic/unistd.h for aarch64).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
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


def filter_program(machine: str) -> bytes:
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
    """The filter for the process `pid`, made from the result of `filter_program`."""
    return code.replace(_instruction(_EQUAL, 1, 0, _ANY_PROCESS), _instruction(_EQUAL, 1, 0, pid))


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_CLONE = {"mount": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "net": 0x40000000}
_CLONE_NEWUSER = 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
# The same numbers on x86_64 and aarch64 (both tables agree from 424 on); capset differs.
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_CAPSET = {"x86_64": 126, "aarch64": 91}


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _check(result: int, restriction: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{restriction}: {os.strerror(number)}")


def confine_zygote() -> list[str]:
    """Confine the process that forks programs. Returns the names of the restrictions in force.

    Call it after all imports. Raises OSError if no_new_privs cannot be set, without which there is no
    seccomp.
    """
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    restrictions = ["no_new_privs"]
    # When memory runs out, a program goes before the process that holds the models.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    for restrict in (_namespaces, _empty_root, _another_user, _no_capabilities, _landlock):
        with contextlib.suppress(OSError):  # Not granted here: seccomp does not need it.
            restrictions.append(restrict())
    _check(_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    return restrictions


def has_seccomp() -> bool:
    """Whether the kernel supports filters: only then does it read the (invalid) address of the filter."""
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, 0, 0, 0)
    return ctypes.get_errno() == errno.EFAULT


def _namespaces() -> str:
    flags = sum(_CLONE.values())
    # As root without a user namespace, which some kernels refuse even to root.
    if os.geteuid() == 0 and _libc.unshare(flags) == 0:
        return "namespaces"
    uid, gid = os.geteuid(), os.getegid()
    _check(_libc.unshare(flags | _CLONE_NEWUSER), "namespaces")
    # In this order: without "deny" an ordinary user may not map a group.
    for name, text in (("setgroups", "deny"), ("gid_map", f"0 {gid} 1"), ("uid_map", f"0 {uid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return "user namespace"


def _empty_root() -> str:
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _check(_libc.mount(b"none", b"/tmp", b"tmpfs", flags, b"size=4k,nr_inodes=2,mode=555"), "an empty root")
    os.chroot("/tmp")
    os.chdir("/")
    return "empty root"


def _another_user() -> str:
    if os.geteuid() != 0:
        raise OSError("there is nothing to drop")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    return "another user"


def _no_capabilities() -> str:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _check(_syscall(_CAPSET[platform.machine()], header, (ctypes.c_uint32 * 6)()), "capabilities")
    return "no capabilities"


def _landlock() -> str:
    version = _syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        raise OSError(ctypes.get_errno(), "no Landlock")
    files = (1 << (13, 14, 15, 15, 16)[min(version, 5) - 1]) - 1
    network = 3 if version >= 4 else 0
    scopes = 3 if version >= 6 else 0
    rules = (ctypes.c_uint64 * 3)(files, network, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    # Handled, with no rule that allows anything: all of it is denied.
    ruleset = _syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "no Landlock")
    try:
        _check(_syscall(_LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "Landlock")
    finally:
        os.close(ruleset)
    return f"landlock {version}"


def address_space() -> int:
    """Bytes of address space of this process. Call it before confining the process: it reads /proc."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def die_with(parent: int) -> None:
    """End this process when its parent ends. Raises OSError if that has already happened."""
    _prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)
    # It may have died between the fork and the call, and would then send no signal.
    if os.getppid() != parent:
        raise OSError("the parent is gone")


class Confinement:
    """The restrictions of one program's process: prepared while it waits, applied before the program runs.

    `code`: the result of `filter_program`. Construct it in the process that it confines. Raises OSError.
    """

    def __init__(self, code: bytes) -> None:
        none = (0, 0)
        for kind in (
            resource.RLIMIT_CORE,
            resource.RLIMIT_FSIZE,
            resource.RLIMIT_NPROC,
            resource.RLIMIT_MEMLOCK,
            # Pending signals are counted per user: who may queue some can tell how many others have queued.
            resource.RLIMIT_SIGPENDING,
        ):
            resource.setrlimit(kind, none)
        own_filter = of_process(code, os.getpid())
        self._filter = _Filter(len(own_filter) // 8, own_filter)

    def apply(self, memory: int, cpu_seconds: int) -> None:
        """Confine this process for good. `memory`: total bytes of address space. Raises OSError."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOCKET_FD + 1,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        _check(
            # Last, because the filter refuses every call that sets a limit.
            _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(self._filter), 0, 0),
            "the seccomp filter",
        )
