"""A hunt for channels between programs of one zygote: what one leaves, or does, another must not find.

Three ways to look: what the host's kernel says of the processes (mappings, descriptors, namespaces), every
object in a program's own process that could be written and read elsewhere, and every system call that makes
or reaches something shared. Programs run concurrently, one after the other, and in the child that waited
while another ran. Timing alone is not tested.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from videopro.executor import Executor, Limits

LIMITS = Limits(cpu_seconds=20.0, wall_seconds=60.0)
# A program's way to every module of its process.
REACH = "import enum\nmodules = enum.sys.modules\nos = modules['os']\nctypes = modules['ctypes']\n"


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with Executor() as made:
        yield made


def zygote_of(executor: Executor) -> int:
    assert executor._zygote is not None
    return executor._zygote.pid


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def run(pool: Executor, program: str, functions: Any = None, **inputs: Any) -> Any:
    outcome = pool.run(REACH + program, functions or {}, inputs, LIMITS)
    assert outcome.error is None, outcome.log
    return outcome.value


def all_asleep(pool: Executor) -> bool:
    """Whether two programs and the child that waits for the next one all sleep: none is being forked."""
    states = [
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        for pid in children_of(zygote_of(pool))
    ]
    return states == ["S"] * 3


def at_once(pool: Executor, look: Any) -> Any:
    """What `look` finds while two programs run and a third child waits for its own."""
    found: list[Any] = []
    meet = threading.Barrier(2)

    def here(leader: bool) -> None:
        meet.wait(30)
        until = time.monotonic() + 20
        while leader and not all_asleep(pool) and time.monotonic() < until:
            time.sleep(0.01)
        if leader:
            found.append(look(children_of(zygote_of(pool))))
        meet.wait(30)

    program = "def execute_command(leader):\n    here(leader)"
    threads = [
        threading.Thread(target=pool.run, args=(program, {"here": here}, {"leader": leader}, LIMITS))
        for leader in (True, False)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found[0]


# ---- what the kernel says ---------------------------------------------------------------------------------


def test_no_process_has_shared_memory_that_can_be_written(pool: Executor) -> None:
    def look(pids: list[int]) -> list[str]:
        lines = []
        for pid in (zygote_of(pool), *pids):
            lines += Path(f"/proc/{pid}/maps").read_text().splitlines()
        assert len(pids) == 3
        assert len(lines) > 200
        return [line for line in lines if re.match(r"\S+ .w.s ", line)]

    assert at_once(pool, look) == []


def test_a_process_has_no_descriptor_of_another(pool: Executor) -> None:
    """Its own socket, and the zygote's first three, which the filter makes unusable."""

    def look(pids: list[int]) -> list[dict[int, str]]:
        return [
            {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            for pid in pids
        ]

    tables = at_once(pool, look)
    assert [sorted(table) for table in tables] == [[0, 1, 2, 3]] * 3
    sockets = [table[3] for table in tables]
    assert all(name.startswith("socket:") for name in sockets)
    assert len(set(sockets)) == 3


def test_no_process_can_inspect_another(pool: Executor) -> None:
    def look(pids: list[int]) -> list[tuple[str, str]]:
        found = []
        for pid in pids:
            status = dict(
                line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            )
            found.append((status["SigQ"].split("/")[1], status["Threads"]))
        return found

    # No waiting signal is counted for it among those of the others.
    assert at_once(pool, look) == [("0", "1")] * 3


# ---- what a program can write ------------------------------------------------------------------------------

# Writes a mark into every object that lends its memory, so that a later program can find it anywhere.
LEAVE = """
def execute_command(mark):
    gc = modules["gc"]
    word = mark.encode()
    left = 0
    for one in everything():
        try:
            view = memoryview(one)
            if view.readonly or view.nbytes < len(word): continue
            view.cast('B')[:len(word)] = word
            left += 1
        except (TypeError, ValueError, BufferError): continue
    for module in list(modules.values()):
        try: module.left_by_another = mark
        except (AttributeError, TypeError): continue
        left += 1
    for own in (os.environ, modules['builtins'].__dict__, gc.garbage):
        try: own[mark] = mark
        except TypeError: own.append(mark)
    os.environ['LEFT'] = mark
    import random; random.seed(mark)
    meet()
    return left
"""
FIND = """
def execute_command(mark):
    import random
    gc = modules["gc"]
    word = mark.encode()
    found = []
    for one in everything():
        try: data = bytes(memoryview(one).cast('B')[:64])
        except (TypeError, ValueError, BufferError): continue
        if data.startswith(word) and type(one) is not bytes and data != word: found.append(repr(type(one)))
    found += [str(m) for m in list(modules.values()) if hasattr(m, 'left_by_another')]
    if 'LEFT' in os.environ or mark in modules['builtins'].__dict__ or gc.garbage: found.append('a dict')
    meet()
    return found, random.random()
"""
EVERYTHING = """
def everything():
    gc = modules['gc']
    seen, left = set(), [*gc.get_objects(), *(vars(m) for m in modules.values() if hasattr(m, '__dict__'))]
    while left:
        one = left.pop()
        if id(one) in seen: continue
        seen.add(id(one))
        yield one
        if len(seen) > 200_000: break
        left.extend(gc.get_referents(one))
"""


@pytest.fixture(scope="module")
def untouched(pool: Executor) -> float:
    return run(pool, EVERYTHING + FIND, {"meet": lambda: None}, mark="before anything")[1]


def test_nothing_is_left_for_later_programs(pool: Executor, untouched: float) -> None:
    """The first of them runs in a child that was forked while the other one ran."""
    mark = "a mark of this very test"
    left = run(pool, EVERYTHING + LEAVE, {"meet": lambda: None}, mark=mark)
    assert left > 30  # The modules at the least.
    for _ in range(3):
        assert run(pool, EVERYTHING + FIND, {"meet": lambda: None}, mark=mark) == ([], untouched)


def test_nothing_is_seen_by_a_program_that_runs_concurrently(pool: Executor, untouched: float) -> None:
    mark = "a mark of two programs"
    written, read = threading.Event(), threading.Event()
    values: list[Any] = []

    def leave() -> None:
        def meet() -> None:
            written.set()
            read.wait(30)

        run(pool, EVERYTHING + LEAVE, {"meet": meet}, mark=mark)

    thread = threading.Thread(target=leave)
    thread.start()
    written.wait(30)
    values.append(run(pool, EVERYTHING + FIND, {"meet": lambda: None}, mark=mark))
    read.set()
    thread.join(60)
    assert values == [([], untouched)]


def test_the_reserve_of_the_issue_is_gone(pool: Executor) -> None:
    """The mapping that carried an answer from one rollout to the next."""
    program = (
        "def execute_command():\n"
        "    mmap = modules['mmap']\n"
        "    spaces = [vars(m) for m in modules.values() if hasattr(m, '__dict__')]\n"
        "    kept = [o for space in spaces for o in [*space.values()] if type(o) is mmap.mmap]\n"
        "    made = []\n"
        "    for flags in (1, 1 | 32, 3 | 32):\n"
        "        try: made.append(mmap.mmap(-1, 4096, flags=flags))\n"
        "        except (PermissionError, ValueError, OSError): pass\n"
        "    return len(kept), len(made), len(mmap.mmap(-1, 4096, flags=2 | 32))"
    )
    assert run(pool, program) == (0, 0, 4096)


# ---- what the system lends --------------------------------------------------------------------------------

# Numbers on x86_64 of what makes, finds or reaches something that processes share (asm/unistd_64.h).
_NUMBERS = """
    shmget=29 shmat=30 shmctl=31 semget=64 semop=65 msgget=68 msgsnd=69 msgrcv=70 mq_open=240
    memfd_create=319 memfd_secret=447 eventfd=284 eventfd2=290 pipe=22 pipe2=293 socketpair=53 socket=41
    connect=42 bind=49 sendto=44 sendmsg=46 recvmsg=47 recvfrom=45 sendmmsg=307 getsockopt=55
    setsockopt=54 getsockname=51 getpeername=52 shutdown=48 open=2 openat=257 creat=85 flock=73 fcntl=72
    lseek=8 pread64=17 pwrite64=18 readv=19 writev=20 sendfile=40 splice=275 tee=276 vmsplice=278 dup=32
    dup2=33 dup3=292 kill=62 tkill=200 rt_sigqueueinfo=129 rt_tgsigqueueinfo=297 pidfd_open=434
    pidfd_send_signal=424 pidfd_getfd=438 ptrace=101 process_vm_readv=310 process_vm_writev=311
    process_madvise=440 kcmp=312 rt_sigpending=127 signalfd4=289 rt_sigtimedwait=128 add_key=248
    request_key=249 keyctl=250 inotify_init1=294 fanotify_init=300 perf_event_open=298 bpf=321
    userfaultfd=323 io_uring_setup=425 io_setup=206 epoll_create1=291 timerfd_create=283 timer_create=222
    setpriority=141 getpriority=140 sched_setaffinity=203 sched_getaffinity=204 ioprio_set=251
    prlimit64=302 getrlimit=97 setrlimit=160 times=100 sysinfo=99 uname=63 sethostname=170 prctl=157
    arch_prctl=158 personality=135 mincore=27 mlock=149 msync=26 remap_file_pages=216 move_pages=279
    mbind=237 set_mempolicy=238 membarrier=324 clone=56 fork=57 vfork=58 clone3=435 execve=59 wait4=61
    waitid=247 umask=95 chdir=80 stat=4 fstat=5 access=21 getdents64=217 set_robust_list=273
    get_robust_list=274 futex_waitv=449 getppid=110 getuid=102
"""
SHARING = {name: int(number) for name, number in (entry.split("=") for entry in _NUMBERS.split())}
SYSCALLS = """
def execute_command(numbers):
    libc = ctypes.CDLL(None, use_errno=True)
    answered = []
    for name, number in numbers.items():
        ctypes.set_errno(0)
        if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
            answered.append((name, ctypes.get_errno()))
    return answered
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are of x86_64")
def test_no_system_call_makes_or_reaches_what_is_shared(pool: Executor) -> None:
    assert run(pool, SYSCALLS, numbers=SHARING) == []


def test_no_other_process_can_be_named(pool: Executor) -> None:
    program = (
        "def execute_command(others):\n"
        "    libc = ctypes.CDLL(None, use_errno=True)\n"
        "    return [n for n in others for s in (0, 18, 23) if libc.syscall(234, n, n, s) != -1]"
    )

    def look(pids: list[int]) -> Any:
        others = [zygote_of(pool), os.getpid(), 1, *pids[:2]]
        return run(pool, program, others=others), run(pool, program, others=[0, -1, -others[0]])

    if os.uname().machine == "x86_64":
        assert at_once(pool, look) == ([], [])


def test_no_clock_of_another_process_can_be_read(pool: Executor) -> None:
    """The kernel shows everyone the CPU time of every process, by a clock id made of its process id."""
    program = (
        "import time\n"
        "def execute_command(others):\n"
        "    found = []\n"
        "    for pid in others:\n"
        "        for kind in (0, 1, 2, 4, 5, 6):\n"
        "            for read in (time.clock_gettime, time.clock_getres):\n"
        "                try: found.append((pid, kind, read((~pid << 3) | kind)))\n"
        "                except PermissionError: pass\n"
        "    return found, time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) > 0, time.thread_time() > 0"
    )
    assert run(pool, program, others=[os.getpid(), zygote_of(pool), 1, 0]) == ([], True, True)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number is of x86_64")
def test_no_process_can_be_woken_through_a_librarys_page(pool: Executor) -> None:
    """All programs map the same libraries, and a wait that is not private is one on the file's page."""
    asleep = threading.Event()
    place = (
        "    libc = ctypes.CDLL(None, use_errno=True)\n"
        "    place = ctypes.cast(libc.memcpy, ctypes.c_void_p).value & ~3\n"
        "    value = ctypes.c_uint.from_address(place).value\n"
    )
    waits = (
        f"def execute_command():\n{place}    asleep()\n    until = (ctypes.c_long * 2)(2, 0)\n"
        "    return libc.syscall(202, ctypes.c_void_p(place), 0, value, until, None, 0)"
    )
    wakes = (
        f"def execute_command():\n{place}"
        "    return libc.syscall(202, ctypes.c_void_p(place), 1, 9, None, None, 0), ctypes.get_errno()"
    )
    slept: list[Any] = []
    thread = threading.Thread(target=lambda: slept.append(run(pool, waits, {"asleep": asleep.set})))
    thread.start()
    assert asleep.wait(30)
    time.sleep(0.3)
    woke = run(pool, wakes)
    thread.join(30)
    assert woke == (-1, 1)
    assert slept == [-1]


def test_waiting_signals_cannot_be_counted(pool: Executor) -> None:
    """Of one user, so of all programs, the kernel counts what is queued: a program that fills the queue could
    be read by another that tries to add to it."""
    program = (
        "def execute_command():\n"
        "    signal = modules['signal']\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))\n"
        "    queued = 0\n"
        "    for n in range(50):\n"
        "        try: signal.raise_signal(40)\n"
        "        except OSError: continue\n"
        "        queued += 1\n"
        "    return queued"
    )
    assert run(pool, program) == 0


def test_a_random_seed_reveals_nothing(pool: Executor) -> None:
    """Every program starts from the same seed, whatever ran before it or runs beside it."""
    program = (
        "import random\ndef execute_command():\n    return random.random(), hash('kite'), id(object) % 4096"
    )
    values = {run(pool, program) for _ in range(4)}
    assert len(values) == 1
