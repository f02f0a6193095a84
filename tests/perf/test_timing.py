"""perf/timing.py counts the CPU time of a process and its descendants; perf/child.py calls in a new one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from perf.child import ChildFailed, call_in_child
from perf.decoders import wanted
from perf.timing import Spent, cpu_seconds, shown, timed

# Works for 0.3 s of its own CPU time, says so, and waits for the end of its input.
BUSY = """
import sys, time
while time.process_time() < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""


def busy(code: str = BUSY) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_waiting_takes_wall_time_alone() -> None:
    with timed() as spent:
        time.sleep(0.5)
    assert spent.wall_s >= 0.5
    assert spent.cpu_s < 0.25


def test_own_work_counts() -> None:
    until = time.process_time() + 0.3
    with timed() as spent:
        while time.process_time() < until:
            pass
    assert 0.29 < spent.cpu_s < 1.0
    assert spent.wall_s > 0.29


@pytest.mark.parametrize("waited", [True, False])
def test_a_childs_work_counts_once_whether_it_has_ended_or_not(waited: bool) -> None:
    with timed() as spent:
        child = busy()
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        if waited:
            child.communicate()
    # The interpreter's start is in its 0.3 s. The kernel tells a running process's time in steps of 10 ms.
    assert 0.25 < spent.cpu_s < 0.6
    before = cpu_seconds()
    child.communicate()
    assert cpu_seconds() - before < 0.25


def test_a_grandchilds_work_counts() -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    with timed() as spent:
        child = busy(code)
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
    child.communicate()
    assert spent.cpu_s > 0.25


def test_what_a_failed_block_took_is_known() -> None:
    kept: list[Spent] = []

    def fail() -> None:
        with timed() as spent:
            kept.append(spent)
            time.sleep(0.05)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert kept[0].wall_s >= 0.05


def test_a_table_has_a_dash_for_seconds_that_were_not_recorded() -> None:
    assert [shown(None), shown(1.239), shown(2.0, 0)] == ["-", "1.24", "2"]
    assert Spent(1.26, 0.04).rounded() == {"wall_s": 1.3, "cpu_s": 0.0}


def test_a_call_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another perf/ in the current directory is not taken.
    (tmp_path / "perf.py").write_text("raise RuntimeError('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert call_in_child("perf.decoders:wanted", 10) == wanted(10)
    with pytest.raises(ChildFailed, match="has no attribute 'unwanted'"):
        call_in_child("perf.decoders:unwanted", 10)
