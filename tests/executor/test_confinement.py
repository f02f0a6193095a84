"""How a program's process is confined: the filter, by a BPF interpreter written here and system call numbers
from the kernel's tables; running children, by what the kernel reports of them; every attack, tried once."""

import dataclasses
import os
import platform
import re
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.stress.hostile import LIMITS, Attack, Surroundings, attack, soak
from tests.stress.hostile_programs import FAMILIES, each_once
from tests.support import ROOT
from tests.support.cancelling import until
from tests.support.sandbox_runs import ONE, REACH, children_of, status_of, zygote_of
from tests.support.sandbox_runs import altered as altered
from tests.support.sandbox_runs import pool as pool
from videopro.executor import Executor, Limits, SandboxError, SandboxMissing, SandboxUnsafe, conversation
from videopro.executor.inside import confinement

# ---- the filter -------------------------------------------------------------------------------------------

PID = 4711
X86, ARM = 0xC000003E, 0xC00000B7
ANONYMOUS = 0xFFFFFFFFFFFFFFFF  # A descriptor of -1, as the kernel sees it.


def judged(machine: str, arch: int, number: int, *arguments: int) -> int:
    """What the filter returns, by the rules of classic BPF (Linux's networking/filter.rst)."""
    code = confinement.of_process(confinement.filter_program(machine), PID)
    data = struct.pack("<iIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    accumulator, at = 0, 0
    while True:
        kind, true, false, value = struct.unpack_from("<HBBI", code, 8 * at)
        at += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif kind == 0x06:
            return int(value)
        else:
            holds = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: accumulator & value != 0,
            }[kind]
            at += true if holds else false


ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000
# name: number on x86_64, on aarch64.
FREE = {
    "brk": (12, 214),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "sched_yield": (24, 124),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getrusage": (98, 165),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
GUARDED = {
    "read": (0, 63),
    "write": (1, 64),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "tgkill": (234, 131),
    "futex": (202, 98),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
}


@pytest.mark.parametrize(("machine", "arch", "column"), [("x86_64", X86, 0), ("aarch64", ARM, 1)])
def test_the_filter_on_both_processors(machine: str, arch: int, column: int) -> None:
    def call(name: str, *arguments: int) -> int:
        return judged(machine, arch, GUARDED[name][column], *arguments)

    for name in ("read", "write"):
        assert call(name, 3, 0xDEAD, 10) == ALLOW
        assert [call(name, fd, 0xDEAD, 10) for fd in (0, 1, 2, 4, 2**32 - 1)] == [REFUSE] * 5
    assert call("mmap", 0, 4096, 3, 0x22, ANONYMOUS) == ALLOW
    assert call("mmap", 0, 4096, 7, 0x22, ANONYMOUS) == REFUSE
    assert call("mmap", 0, 4096, 4, 0x22, ANONYMOUS) == REFUSE
    assert call("mmap", 0, 4096, 1, 0x02, 3) == REFUSE
    assert call("mmap", 0, 4096, 3, 0x21, ANONYMOUS) == REFUSE  # MAP_SHARED
    assert call("mmap", 0, 4096, 3, 0x23, ANONYMOUS) == REFUSE  # MAP_SHARED_VALIDATE
    assert call("mmap", 0, 4096, 3, 0x40022, ANONYMOUS) == REFUSE  # MAP_HUGETLB
    # FUTEX_WAIT, FUTEX_WAKE, the latter three also by the real time: with FUTEX_PRIVATE_FLAG and without.
    for operation in (0, 1, 9, 10, 256 + 9):
        assert call("futex", 0xDEAD000, operation | 128) == ALLOW
        assert call("futex", 0xDEAD000, operation) == REFUSE
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        assert [call(name, clock) for clock in range(12)] == [ALLOW] * 12
        # As clock_getcpuclockid makes them of a process, pthread_getcpuclockid of a thread, and a descriptor.
        for clock in ((~PID << 3) | 2, (~PID << 3) | 6, (~3 << 3) | 3):
            assert call(name, clock & 0xFFFFFFFF) == call(name, clock & (1 << 64) - 1) == REFUSE
    assert call("mprotect", 0xDEAD000, 4096, 3) == ALLOW
    assert call("mprotect", 0xDEAD000, 4096, 5) == REFUSE
    assert call("tgkill", PID, PID, 6) == ALLOW
    assert call("tgkill", PID + 1, PID + 1, 9) == REFUSE
    assert call("tgkill", 2**32 - 1, 1, 9) == REFUSE
    # Of 3 and of 9, whatever they mean: 3 is the socket, and clocks and protections that all may have.
    free = {numbers[column] for numbers in FREE.values()}
    clocks = {GUARDED[name][column] for name in ("clock_gettime", "clock_getres", "clock_nanosleep")}
    socket = {GUARDED[name][column] for name in ("read", "write")}
    for value, more in ((3, socket), (9, set())):
        judgements = {n: judged(machine, arch, n, *[value] * 6) for n in range(600)}
        allowed = free | clocks | more | {GUARDED["mprotect"][column]}
        assert {n for n, judgement in judgements.items() if judgement == ALLOW} == allowed
        assert {*judgements.values()} == {ALLOW, REFUSE}
    assert judged(machine, 0x40000003, 1, 3) == KILL  # i386 on x86_64
    assert judged(machine, 0x40000028, 1, 3) == KILL  # 32-bit ARM
    assert judged(machine, ARM if column == 0 else X86, 1, 3) == KILL
    foreign = judged("x86_64", X86, 0x40000000 + 1, 3)
    assert foreign == KILL  # The x32 ABI's write.


def test_the_kernels_view_of_a_running_program() -> None:
    found: list[dict[str, str]] = []
    limits: list[str] = []

    def look() -> None:
        child = children_of(zygote_of(executor).pid)[0]
        found.append(status_of(child))
        limits.append(Path(f"/proc/{child}/limits").read_text())

    with Executor() as executor:
        program = "def execute_command():\n    look()"
        assert executor.run(program, {"look": look}, {}, Limits(cpu_seconds=3.0)).status == "empty"
        assert "no_new_privs" in executor.restrictions
    (child,) = found
    assert child["Seccomp"] == "2"
    assert child["NoNewPrivs"] == "1"
    assert int(child["CapEff"], 16) == int(child["CapPrm"], 16) == 0
    assert child["Threads"] == "1"
    if os.geteuid() == 0 and "another user" in executor.restrictions:
        assert child["Uid"].split() == ["65534"] * 4
    rows = {line[:26].strip(): line[26:].split()[:2] for line in limits[0].splitlines()}
    assert rows["Max processes"] == rows["Max file size"] == rows["Max core file size"] == ["0", "0"]
    assert rows["Max open files"] == ["4", "4"]
    assert rows["Max cpu time"] == ["4", "5"]


def test_nothing_of_the_host_is_in_a_programs_process(pool: Executor) -> None:
    program = (
        "import enum, random\n"
        "def execute_command():\n    return sorted(enum.sys.modules), dict(random._os.environ), enum.sys.argv"
    )
    modules, environment, arguments = pool.run(program, {}, {}).value
    assert {"math", "re", "statistics"} <= set(modules)
    heavy = {"torch", "numpy", "transformers", "PIL", "videopro", "av", "site", "subprocess", "asyncio"}
    assert not [name for name in modules if name.split(".")[0] in heavy]
    assert set(environment) <= {"PYTHONHASHSEED", "LC_CTYPE"}
    assert arguments == ["-c"]


def test_the_host_side_imports_nothing_heavy() -> None:
    code = "import videopro.executor, videopro.executor.parsing, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert not {"torch", "numpy", "transformers", "PIL"} & set(done.stdout.split())


# ---- fails closed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "error", "message"),
    [
        (
            "confinement.py",
            "_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes",
            "_PR_SET_DUMPABLE, 0, ctypes",
            SandboxUnsafe,
            r"sandbox this still works: .*write to another",
        ),
        ("confinement.py", "PROT_EXEC = 4", "PROT_EXEC = 8", SandboxUnsafe, "this still works"),
        (
            "confinement.py",
            "_SECCOMP_MODE_FILTER = 2",
            "_SECCOMP_MODE_FILTER = 77",
            SandboxMissing,
            r"this kernel has no seccomp filters\. .*--method native",
        ),
        ("zygote.py", "def main(", "raise RuntimeError('no luck')\n\n\ndef main(", SandboxError, "no luck"),
    ],
)
def test_a_sandbox_that_is_not_whole_runs_nothing(
    altered: Any, name: str, old: str, new: str, error: type[Exception], message: str
) -> None:
    altered(name, old, new)
    with pytest.raises(error, match=message):
        Executor()


@pytest.mark.parametrize(("hole", "numbers"), [("openat", "257, 56"), ("socket", "41, 198")])
def test_a_hole_in_the_filter_is_detected(altered: Any, hole: str, numbers: str) -> None:
    altered("confinement.py", '"brk": (12, 214),', f'"brk": (12, 214), "{hole}": ({numbers}),')
    altered("confinement.py", '    "brk",\n', f'    "brk",\n    "{hole}",\n')
    with pytest.raises(SandboxUnsafe, match="inside the sandbox this still works"):
        Executor()


def test_where_programs_cannot_run_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxMissing, match=r"x86_64 or aarch64, not on linux on riscv64\. Use a machine"):
        Executor()


def test_the_host_never_executes_a_program() -> None:
    folder = Path(conversation.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "exec(" not in text.replace("_exec(", ""), path
        assert "eval(" not in text, path


# ---- no channel between programs ---------------------------------------------------------------------------

LONG = Limits(cpu_seconds=20.0, wall_seconds=60.0)


def test_processes_share_no_memory_no_descriptor_and_no_queue(pool: Executor) -> None:
    """While two programs run and a third child waits for its own."""
    zygote, meet = zygote_of(pool).pid, threading.Barrier(2, timeout=30)
    maps: list[str] = []
    tables: list[dict[int, str]] = []
    statuses: list[dict[str, str]] = []

    def look() -> None:
        if meet.wait() == 0:
            # All three sleep: none is being forked.
            until(lambda: [status_of(pid)["State"][0] for pid in children_of(zygote)] == ["S"] * 3)
            for pid in children_of(zygote):
                files = os.listdir(f"/proc/{pid}/fd")
                tables.append({int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in files})
                statuses.append(status_of(pid))
            for pid in (zygote, *children_of(zygote)):
                maps.extend(Path(f"/proc/{pid}/maps").read_text().splitlines())
        meet.wait()

    program = "def execute_command():\n    look()"
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(pool.run, program, {"look": look}, {}, LONG) for _ in range(2)]
    assert [each.result().error for each in running] == [None, None]
    assert len(maps) > 200
    assert not [line for line in maps if re.match(r"\S+ .w.s ", line)]
    # Its own socket, and the zygote's first three, which the filter makes unusable.
    assert [sorted(table) for table in tables] == [[0, 1, 2, 3]] * 3
    sockets = {table[3] for table in tables}
    assert len(sockets) == 3
    assert all(name.startswith("socket:") for name in sockets)
    # No waiting signal is counted for it among those of the others.
    assert [(one["SigQ"].split("/")[1], one["Threads"]) for one in statuses] == [("0", "1")] * 3


SYSCALLS = f"""{REACH}
def execute_command(numbers):
    libc = c.CDLL(None, use_errno=True)
    answered = []
    for number in numbers:
        c.set_errno(0)
        if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or c.get_errno() != 1:
            answered.append((number, c.get_errno()))
    return answered
"""


def test_no_system_call_but_the_allowed_ones_is_answered(pool: Executor) -> None:
    """Whatever makes, finds or reaches something that processes share is among the others."""
    allowed = confinement.MACHINES[os.uname().machine].calls
    # Linux itself ends a process that calls uretprobe or uprobe (335, 336 on x86_64) from its own code.
    numbers = {*range(470)} - {*allowed.values(), 335, 336}
    outcome = pool.run(SYSCALLS, {}, {"numbers": [*numbers]}, LONG)
    assert outcome.value == [], outcome.log


# ---- every attack ------------------------------------------------------------------------------------------


SLOW = dataclasses.replace(LIMITS, cpu_seconds=0.1, wall_seconds=1.0)
# Another budget than that of time has to decide, also on a busy machine.
PATIENT = dataclasses.replace(LIMITS, cpu_seconds=0.3, wall_seconds=30.0)


def test_every_attack_ends_as_it_should_and_leaves_the_host_untouched() -> None:
    with Surroundings() as surroundings, Executor() as executor:
        slow, patient = (Attack(executor, surroundings, limits) for limits in (SLOW, PATIENT))
        for name, text in each_once(11, slow=False):
            (slow if FAMILIES[name].slow else patient).run(name, text)
        assert surroundings.differences() == []
        assert executor.run(ONE, {}, {}).value == 1
    ends = slow.ends | patient.ends
    assert ends.keys() == FAMILIES.keys()
    for name, family in FAMILIES.items():
        # On a busy machine the wall clock runs out before the processor time.
        allowed = {*family.ends.split(), *(["WallLimit"] if family.slow else [])}
        assert not family.ends or ends[name].keys() <= allowed, name


@pytest.mark.long
def test_a_thousand_hostile_programs_and_killed_zygotes() -> None:
    assert attack(1000, 0)["harm"] == []
    result = soak(20.0, threads=4, kill_every=2.0)
    assert result["wrong"] == []
    assert result["kills"] > 0
