"""The life of the zygote: it is replaced when it dies, ends with its host, and nothing accumulates. Killed at
any time, out of descriptors, stuck: whatever happens to it costs no more than the programs that ran in it,
and is reported as a failure of the sandbox. A cancelled program is killed, and the next one finds all as it
was.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.sandbox_runs import ONE, children_of, status_of, zygote_of
from tests.support.sandbox_runs import altered as altered
from tests.support.sandbox_runs import pool as pool
from videopro.errors import check_cancelled
from videopro.executor import Executor, Limits, SandboxError, ZygoteGone, channel, conversation, process
from videopro.executor.process import ZygoteProcess


def kill(executor: Executor) -> None:
    os.kill(zygote_of(executor).pid, signal.SIGKILL)


def at_once(*works: Callable[[], object], between: float = 0.0) -> None:
    """Do all of it, each in a thread."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
        time.sleep(between)
    for thread in threads:
        thread.join(60)


def are_gone(*pids: int) -> bool:
    """Whether none of these processes runs."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if not status_of(pid)["State"].startswith("Z"):
                return False
    return True


# ---- it ends ----------------------------------------------------------------------------------------------


def test_a_zygote_that_dies_is_replaced_and_its_death_is_not_the_programs_failure() -> None:
    with Executor() as executor:
        first = zygote_of(executor)
        kill(executor)
        time.sleep(0.2)
        assert executor.run(ONE, {}, {}).value == 1
        assert zygote_of(executor) is not first
        calls = []

        def look() -> None:
            calls.append(1)
            kill(executor)

        with pytest.raises(ZygoteGone, match="died"):
            executor.run("def execute_command():\n    look()\n    while True: pass", {"look": look}, {})
        # What has called is never run twice; what has called nothing is.
        assert calls == [1]
        assert executor.run(ONE, {}, {}).value == 1
        threading.Timer(0.4, kill, [executor]).start()
        program = "import time\ndef execute_command():\n    time.sleep(0.8)\n    return 'whole'"
        assert executor.run(program, {}, {}).value == "whole"


def test_closing_ends_the_programs_that_run() -> None:
    executor = Executor()
    zygote = zygote_of(executor)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            executor.run("def execute_command():\n    import time\n    time.sleep(60)", {}, {})
        except SandboxError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: len(children_of(zygote.pid)) == 2)
    running, waiting = children_of(zygote.pid)
    executor.close()
    executor.close()
    thread.join(30)
    assert len(caught) == 1
    until(lambda: are_gone(running, waiting))
    assert not Path(f"/proc/{zygote.pid}").exists()
    with pytest.raises(SandboxError, match="closed"):
        executor.run(ONE, {}, {})


def test_a_child_that_dies_while_it_waits_is_replaced() -> None:
    with Executor() as executor:
        assert executor.run(ONE, {}, {}).value == 1
        until(lambda: bool(children_of(zygote_of(executor).pid)))
        waiting = children_of(zygote_of(executor).pid)[-1]
        os.kill(waiting, signal.SIGKILL)
        until(lambda: are_gone(waiting))
        assert executor.run(ONE, {}, {}).value == 1


def test_a_child_that_is_killed_before_it_begins_is_replaced(altered: Any) -> None:
    altered(
        "child.py",
        "        session = Session(start)\n",
        "        session = Session(start)\n"
        "        if 'slow' in start['program']: import time; time.sleep(0.6)\n",
    )
    with Executor() as executor:
        killed: list[int] = []

        def kill_child() -> None:
            killed.extend(children_of(zygote_of(executor).pid))
            os.kill(killed[0], signal.SIGKILL)

        threading.Timer(0.3, kill_child).start()
        assert executor.run("def execute_command():\n    return 'slow'", {}, {}).value == "slow"
        assert killed


HOST = """
import os, sys, time
from videopro.executor import Executor
executor = Executor()
def stay():
    zygote = executor._zygote.pid
    children = open(f"/proc/{zygote}/task/{zygote}/children").read().split()
    if os.fork() == 0:  # A fork of the host keeps its sockets open.
        time.sleep(30); os._exit(0)
    print(zygote, *children, flush=True)
    time.sleep(60)
executor.run("def execute_command():\\n    stay()", {"stay": stay}, {})
"""


def test_nothing_outlives_a_host_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True, cwd=ROOT) as host:
        pids = [int(word) for word in host.stdout.readline().split()]
        assert len(pids) in (2, 3)
        host.kill()
        until(lambda: are_gone(*pids))


FORKED = """
import os
from videopro import executor
assert executor.run("def execute_command():\\n    return 1", {}, {}).value == 1
first = executor._executor()
if os.fork() == 0:
    assert executor.run("def execute_command():\\n    return 2", {}, {}).value == 2
    assert executor._executor() is not first
    executor._close()
    os._exit(7)
status = os.waitstatus_to_exitcode(os.wait()[1])
assert executor._executor() is first
assert executor.run("def execute_command():\\n    return 3", {}, {}).value == 3
raise SystemExit(status)
"""


def test_a_fork_of_the_host_has_an_executor_of_its_own() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], cwd=ROOT, timeout=120, check=False).returncode == 7


def test_nothing_accumulates(pool: Executor) -> None:
    def open_files(pid: int | str) -> int:
        return len(os.listdir(f"/proc/{pid}/fd"))

    crash = "def execute_command():\n    import random\n    random._os._exit(3)"
    for program in (ONE, crash):
        pool.run(program, {}, {})
    before = open_files("self"), len(threading.enumerate())
    pid = zygote_of(pool).pid
    zygote = open_files(pid) if os.geteuid() == 0 else 0
    for number in range(30):
        pool.run((ONE, crash)[number % 2], {}, {})
    assert (open_files("self"), len(threading.enumerate())) == before
    assert len(children_of(pid)) <= 1
    # The last run's report may just be closing.
    assert abs((open_files(pid) if os.geteuid() == 0 else 0) - zygote) <= 1


# ---- it is killed while it starts -------------------------------------------------------------------------


def test_the_executor_recovers_from_repeated_kills() -> None:
    """Of every child process that is new, also while it starts up."""
    with Executor() as executor:
        others, over = set(children_of(os.getpid())), threading.Event()
        killed: list[int] = []

        def keep_killing() -> None:
            while not over.wait(0.02):
                for pid in set(children_of(os.getpid())) - others:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

        thread = threading.Thread(target=keep_killing)
        thread.start()
        kill(executor)
        try:
            with pytest.raises(SandboxError, match="did not start: it was ended by SIGKILL"):
                executor.run(ONE, {}, {})
        finally:
            over.set()
            thread.join()
        assert len(killed) >= 5
        assert [executor.run(ONE, {}, {}).value for _ in range(3)] == [1, 1, 1]


def test_no_program_runs_before_the_self_test_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    tested: list[int] = []
    ran: list[bool] = []
    test = ZygoteProcess._test

    def slowly(self: ZygoteProcess) -> None:
        time.sleep(0.3)
        test(self)
        tested.append(self.pid)

    monkeypatch.setattr(ZygoteProcess, "_test", slowly)
    with Executor() as executor:
        kill(executor)

        def look() -> None:
            ran.append(zygote_of(executor).pid in tested)

        program = "def execute_command():\n    look()"
        at_once(*[lambda: executor.run(program, {"look": look}, {})] * 6, between=0.05)
    assert ran == [True] * 6
    assert len(tested) == 2


def test_no_program_runs_after_a_self_test_that_fails_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    with Executor() as executor:
        monkeypatch.setattr(process, "_PROBE", "def probe():\n    return ['open']\n")
        kill(executor)
        for _ in range(2):
            with pytest.raises(SandboxError, match=r"still works: \['open'\]"):
                executor.run(ONE, {}, {})
        monkeypatch.undo()
        assert executor.run(ONE, {}, {}).value == 1


def test_a_death_during_the_self_test_is_not_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing about the confinement: the next zygote is tried."""
    probe = ZygoteProcess._probe
    killed: list[int] = []

    def killing_once(self: ZygoteProcess, call: str) -> Any:
        if not killed:
            os.kill(self.pid, signal.SIGSTOP)  # So that it is killed with the request in its socket.
            threading.Timer(0.2, os.kill, (self.pid, signal.SIGKILL)).start()
            killed.append(self.pid)
        return probe(self, call)

    monkeypatch.setattr(ZygoteProcess, "_probe", killing_once)
    with Executor() as executor:
        assert executor.run(ONE, {}, {}).value == 1
        assert zygote_of(executor).pid not in killed


def test_a_zygote_that_is_stuck_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_START_SECONDS", 0.5)
    monkeypatch.setattr(conversation, "_EXIT_SECONDS", 0.2)
    monkeypatch.setattr(conversation, "_KILL_SECONDS", 0.5)
    with Executor() as executor:
        stuck = zygote_of(executor)
        os.kill(stuck.pid, signal.SIGSTOP)
        # The child that waits is gone with its first program; the second finds no zygote to fork another.
        assert [executor.run(ONE, {}, {}).value for _ in range(2)] == [1, 1]
        assert zygote_of(executor) is not stuck


# ---- descriptors ------------------------------------------------------------------------------------------


@pytest.fixture
def few_descriptors() -> Iterator[Any]:
    """Use up descriptors until only that many are left."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def leave(count: int) -> None:
        used = max(int(descriptor) for descriptor in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, limits[1]))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(count):
            os.close(taken.pop())

    yield leave
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_host_without_descriptors_says_so_and_recovers(few_descriptors: Any, count: int) -> None:
    with Executor() as executor:
        zygote = zygote_of(executor)
        few_descriptors(count)
        for _ in range(2):
            with pytest.raises(SandboxError, match=r"no sockets can be made .*Too many open files"):
                executor.run(ONE, {}, {})
        with pytest.raises(SandboxError, match=r"cannot be started: .*Too many open files"):
            Executor()
        resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1:] * 2)
        assert executor.run(ONE, {}, {}).value == 1
        assert zygote_of(executor) is zygote


def test_more_programs_than_a_zygote_has_descriptors_for_wait(altered: Any) -> None:
    altered("zygote.py", "_MOST_DESCRIPTORS = 4096", "_MOST_DESCRIPTORS = 28")
    with Executor() as executor:
        zygote = zygote_of(executor)
        most, now, lock = 0, 0, threading.Lock()

        def work() -> int:
            nonlocal most, now
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.1)
            with lock:
                now -= 1
            return 1

        values: list[Any] = []
        program = "def execute_command():\n    return work()"
        at_once(*[lambda: values.append(executor.run(program, {"work": work}, {}).value)] * 12)
        assert values == [1] * 12
        assert most == 4
        assert zygote_of(executor) is zygote


def test_a_host_that_gives_up_a_program_does_not_end_the_zygote(
    altered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report has no reader, which once killed the zygote and all that ran."""
    altered(
        "zygote.py", "            pid = self._hand_over(program)\n", "            raise OSError('no luck')\n"
    )
    altered(
        "zygote.py",
        "        program, report = descriptors[0]",
        "        import time; time.sleep(0.1)\n        program, report = descriptors[0]",
    )
    monkeypatch.setattr(ZygoteProcess, "_test", lambda self: None)
    with Executor() as executor:
        zygote = zygote_of(executor)
        for _ in range(3):
            with zygote.child():
                pass  # Closed before the zygote has looked.
        time.sleep(0.6)
        assert not zygote.ended()
        with pytest.raises(SandboxError, match="no process can be started for a program: no luck"):
            executor.run(ONE, {}, {})


def test_a_restriction_that_fails_in_a_later_run_is_not_the_programs_failure(altered: Any) -> None:
    altered(
        "confinement.py",
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (SOCKET_FD",
        '        if cpu_seconds == 8: raise OSError(1, "the seccomp filter")\n'
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (SOCKET_FD",
    )
    with Executor() as executor:
        for limits, message in (
            (Limits(cpu_seconds=7.5), r"cannot be confined: PermissionError: .*the seccomp filter"),
            (Limits(memory_bytes=1 << 70), "a program cannot be confined: OverflowError"),
        ):
            with pytest.raises(SandboxError, match=message):
                executor.run(ONE, {}, {}, limits)
            assert executor.run(ONE, {}, {}).value == 1


# ---- a cancelled program ----------------------------------------------------------------------------------

CANCELLED = {
    "it computes": "def execute_command():\n    begin()\n    while True: pass",
    "it waits for a call": "def execute_command():\n    begin()\n    return wait()",
    "it catches everything": (
        "def execute_command():\n    begin()\n    while True:\n        try:\n            wait()\n"
        "        except BaseException: pass"
    ),
}


@pytest.mark.parametrize("program", CANCELLED.values(), ids=CANCELLED)
def test_a_cancelled_programs_process_is_killed(program: str, pool: Executor) -> None:
    assert pool.run(ONE, {}, {}).value == 1
    begun = threading.Event()
    ended = threading.Event()

    def wait() -> None:
        # As a module does between its parts.
        while not ended.wait(0.01):
            check_cancelled()

    functions: dict[str, Callable[[], None]] = {"begin": begun.set, "wait": wait}
    work = CancelledWork(lambda: pool.run(program, functions, {}))
    assert begun.wait(SOON)
    zygote = zygote_of(pool)
    work.cancel()
    # One child waits for the next program.
    until(lambda: len(children_of(zygote.pid)) == 1)
    assert pool.run(ONE, {}, {}).value == 1
    assert zygote_of(pool) is zygote
    assert not zygote.ended()


def test_a_program_that_waits_for_a_place_is_not_started_when_cancelled(pool: Executor) -> None:
    room = zygote_of(pool)._room
    taken = 0
    while room.acquire(blocking=False):
        taken += 1
    work = CancelledWork(lambda: pool.run(ONE, {}, {}))
    work.cancel()
    room.release(taken)
    assert pool.run(ONE, {}, {}).value == 1
