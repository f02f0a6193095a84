"""The life of the zygote: it is replaced when it dies, ends with its host, and nothing accumulates."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.sandbox_processes import ONE, children_of, status_of, zygote_of
from videopro.executor import Executor, SandboxError


@pytest.fixture(scope="module")
def shared() -> Iterator[Executor]:
    with Executor() as made:
        yield made


def test_a_zygote_that_dies_is_replaced() -> None:
    with Executor() as executor:
        first = zygote_of(executor)
        os.kill(first, signal.SIGKILL)
        time.sleep(0.2)
        assert executor.run(ONE, {}, {}).value == 1
        assert zygote_of(executor) != first


def test_losing_the_zygote_is_not_the_programs_failure() -> None:
    with Executor() as executor:
        program = "def execute_command():\n    die()\n    while True: pass"
        with pytest.raises(SandboxError, match="died"):
            executor.run(program, {"die": lambda: os.kill(zygote_of(executor), signal.SIGKILL)}, {})
        assert executor.run(ONE, {}, {}).value == 1


def test_closing() -> None:
    executor = Executor()
    zygote = zygote_of(executor)
    executor.close()
    executor.close()
    assert not Path(f"/proc/{zygote}").exists()
    with pytest.raises(SandboxError, match="closed"):
        executor.run(ONE, {}, {})


def test_closing_ends_the_programs_that_run() -> None:
    executor = Executor()
    caught: list[BaseException] = []

    def run() -> None:
        try:
            executor.run("def execute_command():\n    import time\n    time.sleep(60)", {}, {})
        except SandboxError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while len(children_of(zygote_of(executor))) < 2:
        time.sleep(0.01)
    running, waiting = children_of(zygote_of(executor))
    executor.close()
    thread.join(30)
    assert len(caught) == 1
    assert gone(running)
    assert gone(waiting)


def test_a_child_that_dies_while_it_waits_is_replaced() -> None:
    with Executor() as executor:
        assert executor.run(ONE, {}, {}).value == 1
        until = time.monotonic() + 20
        while not (waiting := children_of(zygote_of(executor))) and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(waiting[-1], signal.SIGKILL)
        assert gone(waiting[-1])
        assert executor.run(ONE, {}, {}).value == 1


def gone(pid: int, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if status_of(pid)["State"].startswith("Z"):
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_thread_that_started_it_may_end() -> None:
    made: list[Executor] = []
    thread = threading.Thread(target=lambda: made.append(Executor()))
    thread.start()
    thread.join()
    with made[0] as executor:
        time.sleep(0.1)
        assert executor.run(ONE, {}, {}).value == 1


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
        assert host.stdout is not None
        pids = [int(word) for word in host.stdout.readline().split()]
        assert len(pids) in (2, 3)
        host.kill()
        assert all(gone(pid) for pid in pids)


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


def test_nothing_accumulates(shared: Executor) -> None:
    def open_files(pid: int | str) -> int:
        return len(os.listdir(f"/proc/{pid}/fd"))

    crash = "def execute_command():\n    import random\n    random._os._exit(3)"
    for program in (ONE, crash):
        shared.run(program, {}, {})
    before = open_files("self"), len(threading.enumerate())
    zygote = open_files(zygote_of(shared)) if os.geteuid() == 0 else 0
    for number in range(30):
        shared.run((ONE, crash)[number % 2], {}, {})
    assert (open_files("self"), len(threading.enumerate())) == before
    assert len(children_of(zygote_of(shared))) <= 1
    # The last run's report may just be closing.
    assert abs((open_files(zygote_of(shared)) if os.geteuid() == 0 else 0) - zygote) <= 1
