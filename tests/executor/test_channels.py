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
from pathlib import Path
from typing import Any

import pytest

from tests.support.sandbox_runs import REACH, children_of, status_of, zygote_of
from tests.support.sandbox_runs import pool as pool
from videopro.executor import Executor, Limits
from videopro.executor.inside import confinement

LIMITS = Limits(cpu_seconds=20.0, wall_seconds=60.0)
HEAD = f"{REACH}modules, ctypes = m, c\n"


def run(pool: Executor, program: str, functions: Any = None, **inputs: Any) -> Any:
    outcome = pool.run(HEAD + program, functions or {}, inputs, LIMITS)
    assert outcome.error is None, outcome.log
    return outcome.value


def all_asleep(pool: Executor) -> bool:
    """Whether two programs and the child that waits for the next one all sleep: none is being forked."""
    states = [
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        for pid in children_of(zygote_of(pool).pid)
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
            found.append(look(children_of(zygote_of(pool).pid)))
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


def test_processes_share_no_memory_no_descriptor_and_no_queue(pool: Executor) -> None:
    def look(pids: list[int]) -> tuple[list[str], list[dict[int, str]], list[dict[str, str]]]:
        maps = [f"/proc/{pid}/maps" for pid in (zygote_of(pool).pid, *pids)]
        lines = [line for path in maps for line in Path(path).read_text().splitlines()]
        assert len(lines) > 200
        tables = [
            {int(fd): os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            for pid in pids
        ]
        writable = [line for line in lines if re.match(r"\S+ .w.s ", line)]
        return writable, tables, [status_of(pid) for pid in pids]

    writable, tables, statuses = at_once(pool, look)
    assert writable == []
    # Its own socket, and the zygote's first three, which the filter makes unusable.
    assert [sorted(table) for table in tables] == [[0, 1, 2, 3]] * 3
    sockets = {table[3] for table in tables}
    assert len(sockets) == 3
    assert all(name.startswith("socket:") for name in sockets)
    # No waiting signal is counted for it among those of the others.
    assert [(one["SigQ"].split("/")[1], one["Threads"]) for one in statuses] == [("0", "1")] * 3


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
def untouched(pool: Executor) -> Any:
    return run(pool, EVERYTHING + FIND, {"meet": lambda: None}, mark="before anything")[1]


def test_nothing_is_left_for_later_programs(pool: Executor, untouched: float) -> None:
    """The first of them runs in a child that was forked while the other one ran."""
    mark = "a mark of this very test"
    left = run(pool, EVERYTHING + LEAVE, {"meet": lambda: None}, mark=mark)
    assert left > 30  # The modules at the least.
    for _ in range(3):
        assert run(pool, EVERYTHING + FIND, {"meet": lambda: None}, mark=mark) == ([], untouched)


# ---- what the system lends --------------------------------------------------------------------------------

SYSCALLS = """
def execute_command(numbers):
    libc = ctypes.CDLL(None, use_errno=True)
    answered = []
    for number in numbers:
        ctypes.set_errno(0)
        if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
            answered.append((number, ctypes.get_errno()))
    return answered
"""


def test_no_system_call_but_the_allowed_ones_is_answered(pool: Executor) -> None:
    """Whatever makes, finds or reaches something that processes share is among the others."""
    allowed = confinement.MACHINES[os.uname().machine].calls
    # Linux itself ends a process that calls uretprobe or uprobe (335, 336 on x86_64) from its own code.
    numbers = {*range(470)} - {*allowed.values(), 335, 336}
    assert run(pool, SYSCALLS, numbers=[*numbers]) == []


def test_a_random_seed_reveals_nothing(pool: Executor) -> None:
    """Every program starts from the same seed, whatever ran before it or runs beside it."""
    program = (
        "import random\ndef execute_command():\n    return random.random(), hash('kite'), id(object) % 4096"
    )
    values = {run(pool, program) for _ in range(4)}
    assert len(values) == 1
