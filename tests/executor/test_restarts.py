"""The life of the zygote under faults: killed at any time, out of descriptors, stuck. Whatever happens to it
costs no more than the programs that ran in it, and is reported as a failure of the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.altered_sandbox import altered as altered
from videopro.executor import Executor, Limits, SandboxError, ZygoteGone, pool, process
from videopro.executor.process import ZygoteProcess

ONE = "def execute_command():\n    return 1"


def zygote_of(executor: Executor) -> ZygoteProcess:
    assert executor._zygote is not None
    return executor._zygote


def children() -> set[int]:
    """Processes, dead or alive, of this one."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(word) for word in (task / "children").read_text().split()}
    return found


@contextlib.contextmanager
def killing(every: float, but: set[int]) -> Iterator[list[int]]:
    """Kill every child process except `but`, again and again, also while it starts up."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(every):
            for pid in children() - but:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("every", [0.03, 0.25])
def test_a_zygote_that_is_killed_repeatedly_costs_only_the_runs_at_that_time(every: float) -> None:
    """Killed every 30 ms, no zygote ever starts up; every 250 ms, some serve for a moment."""
    messages: set[str] = set()
    values = []
    others = children()
    with Executor() as executor, killing(every, others) as killed:
        until = time.monotonic() + 2.0

        def runs() -> None:
            while time.monotonic() < until:
                try:
                    values.append(executor.run(ONE, {}, {}).value)
                except SandboxError as error:
                    messages.add(str(error))

        threads = [threading.Thread(target=runs) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(killed) > 3
    assert set(values) <= {1}
    assert not [message for message in messages if "closed" in message], messages
    with Executor() as executor:  # And the killing does not affect the next zygote.
        assert executor.run(ONE, {}, {}).value == 1


def test_the_executor_recovers_from_repeated_kills() -> None:
    others = children()
    with Executor() as executor:
        os.kill(zygote_of(executor).pid, signal.SIGKILL)
        with killing(0.02, others) as killed:
            with pytest.raises(SandboxError, match="did not come up: it was ended by SIGKILL"):
                executor.run(ONE, {}, {})
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
        os.kill(zygote_of(executor).pid, signal.SIGKILL)

        def look() -> None:
            ran.append(zygote_of(executor).pid in tested)

        program = "def execute_command():\n    look()"
        threads = [
            threading.Thread(target=executor.run, args=(program, {"look": look}, {})) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
    assert ran == [True] * 6
    assert len(tested) == 2


def test_no_program_runs_after_a_self_test_that_fails_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    with Executor() as executor:
        monkeypatch.setattr(process, "_PROBE", "def probe():\n    return ['open']\n")
        os.kill(zygote_of(executor).pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(SandboxError, match=r"still works: \['open'\]"):
                executor.run(ONE, {}, {})
        monkeypatch.undo()
        assert executor.run(ONE, {}, {}).value == 1


def test_a_death_during_the_self_test_is_not_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing about the confinement: the next zygote is tried."""
    probe = ZygoteProcess._probe
    killed = []

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


def test_a_program_that_has_called_is_never_run_twice() -> None:
    with Executor() as executor:
        calls = []

        def look() -> None:
            calls.append(1)
            os.kill(zygote_of(executor).pid, signal.SIGKILL)

        with pytest.raises(ZygoteGone, match="died"):
            executor.run("def execute_command():\n    look()\n    while True: pass", {"look": look}, {})
        assert calls == [1]


def test_a_program_that_has_called_nothing_runs_again() -> None:
    with Executor() as executor:
        killer = threading.Timer(0.4, lambda: os.kill(zygote_of(executor).pid, signal.SIGKILL))
        killer.start()
        program = "import time\ndef execute_command():\n    time.sleep(1.0)\n    return 'whole'"
        assert executor.run(program, {}, {}).value == "whole"


def test_a_zygote_that_is_stuck_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from videopro.executor import channel, conversation

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
def test_a_host_without_descriptors_says_so(few_descriptors: Any, count: int) -> None:
    with Executor() as executor:
        few_descriptors(count)
        for _ in range(3):
            with pytest.raises(
                SandboxError, match=r"no sockets can be made for a program: .*Too many open files"
            ):
                executor.run(ONE, {}, {})
        with pytest.raises(SandboxError, match=r"cannot be started: .*Too many open files"):
            Executor()


def test_the_executor_recovers_from_a_shortage_of_descriptors(few_descriptors: Any) -> None:
    with Executor() as executor:
        zygote = zygote_of(executor)
        few_descriptors(1)
        with pytest.raises(SandboxError):
            executor.run(ONE, {}, {})
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
        threads = [
            threading.Thread(target=lambda: values.append(executor.run(program, {"work": work}, {}).value))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert values == [1] * 12
        assert most == 4
        assert zygote_of(executor) is zygote


def test_a_zygote_out_of_descriptors_fails_only_the_program_too_many(
    altered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should that happen: the program too many gets an error, and those that run continue."""
    monkeypatch.setattr(pool, "_TRIALS", 2)
    altered("zygote.py", "_MOST_DESCRIPTORS = 4096", "_MOST_DESCRIPTORS = 14")
    altered("zygote.py", "_OWN_DESCRIPTORS = 24", "_OWN_DESCRIPTORS = 0")
    results: list[Any] = []
    go = threading.Event()
    program = "def execute_command():\n    wait()\n    return 1"
    with Executor() as executor:
        zygote = zygote_of(executor)

        def runs() -> None:
            try:
                results.append(executor.run(program, {"wait": go.wait}, {}).value)
            except SandboxError as error:
                results.append(str(error))

        threads = [threading.Thread(target=runs) for _ in range(8)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        while not results and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        go.set()
        for thread in threads:
            thread.join(60)
        assert results.count(1) >= 3, results
        assert all(
            result == 1 or "did not take a program" in result or "no process can be started" in result
            for result in results
        )
        assert results.count(1) < 8
        assert zygote_of(executor) is zygote
        assert executor.run(ONE, {}, {}).value == 1


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


# ---- confinement ------------------------------------------------------------------------------------------


def test_a_restriction_that_cannot_be_set_is_not_the_programs_failure() -> None:
    with Executor() as executor:
        with pytest.raises(SandboxError, match="a program cannot be confined: OverflowError"):
            executor.run(ONE, {}, {}, Limits(memory_bytes=1 << 70))
        assert executor.run(ONE, {}, {}).value == 1


def test_a_restriction_that_fails_in_a_later_run_is_not_the_programs_failure(altered: Any) -> None:
    altered(
        "confinement.py",
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (SOCKET_FD",
        '        if cpu_seconds == 8: raise OSError(1, "the seccomp filter")\n'
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (SOCKET_FD",
    )
    with Executor() as executor:
        assert executor.run(ONE, {}, {}).value == 1
        with pytest.raises(SandboxError, match=r"cannot be confined: PermissionError: .*the seccomp filter"):
            executor.run(ONE, {}, {}, Limits(cpu_seconds=7.5))
        assert executor.run(ONE, {}, {}).value == 1


@pytest.mark.parametrize("kind", ["w", "y"])
def test_a_program_cannot_forge_a_failed_restriction(kind: str) -> None:
    head = "import random\nos = random._os\n"
    line = f"    os.write(3, b'{kind}' + bytes([0, 0, 0, 3]) + b'\"x\"')"
    with Executor() as executor:
        outcome = executor.run(f"{head}def execute_command():\n{line}\n    return 1", {}, {})
        assert outcome.error is not None
        assert outcome.error.type == "ProtocolError"


def test_a_child_that_is_killed_before_it_begins_is_replaced(altered: Any) -> None:
    altered(
        "child.py",
        "        session = Session(start)\n",
        "        session = Session(start)\n"
        "        if 'slow' in start['program']: import time; time.sleep(0.6)\n",
    )
    with Executor() as executor:
        killed: list[int] = []

        def kill() -> None:
            zygote = zygote_of(executor).pid
            killed.extend(
                int(word) for word in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
            )
            os.kill(killed[0], signal.SIGKILL)

        threading.Timer(0.3, kill).start()
        assert executor.run("def execute_command():\n    return 'slow'", {}, {}).value == "slow"
        assert killed
