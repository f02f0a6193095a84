"""What the suite does beside its tests: a change of the process is named and undone, a clock ends a test that
hangs, and forked workers have what a spawned process has."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.support import ROOT, watchdog
from tests.support.forked_workers import MODULES

pytest_plugins = ["pytester"]

_TESTS = """
import os, resource, signal
import pytest

def test_limits():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))

def test_handler():
    signal.signal(signal.SIGUSR1, lambda *_: None)

def test_blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

def test_folder(tmp_path):
    os.chdir(tmp_path)

@pytest.fixture(scope="module")
def a_folder_for_all(tmp_path_factory):
    os.chdir(tmp_path_factory.mktemp("all"))

def test_fixture(a_folder_for_all):
    pass

def test_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, before)

"""
_CHANGED = {
    "test_limits": "RLIMIT_NOFILE: ",
    "test_handler": "handler of SIGUSR1: <Handlers.SIG_DFL: 0> became <function",
    "test_blocked": "blocked signals: set() became {<Signals.SIGUSR2: 12>}",
    "test_folder": "working folder: ",
    "test_fixture": "working folder: ",
}


def test_a_change_that_stays_fails_its_test_by_name(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_changes=_TESTS)
    result = pytester.runpytest_subprocess("-p", "tests.support.process_state", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=len(_CHANGED) + 1, errors=len(_CHANGED))
    said = [line for line in result.outlines if " changed its process: " in line and "::" in line]
    for test, change in _CHANGED.items():
        (line,) = [line for line in said if line.startswith(f"test_changes.py::{test} ")]
        assert line.startswith(f"test_changes.py::{test} changed its process: {change}")


def test_the_clock_of_every_test_runs_and_few_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, started = [1000.0], []

    def start(seconds: float, *, file: int, exit: bool) -> None:
        assert (file, exit) == (7, True)
        started.append((now[0], seconds))

    monkeypatch.setattr(faulthandler, "dump_traceback_later", start)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stash = pytest.Stash()
    stash[fault_handler_stderr_fd_key] = 7
    config = SimpleNamespace(stash=stash)

    def begin(at: float, marker: Any = None) -> None:
        now[0] = at
        item: Any = SimpleNamespace(config=config, get_closest_marker=lambda name: marker)
        watchdog.pytest_runtest_setup(item)

    begin(1000.0)
    begin(1001.0)
    begin(1015.0)
    assert started == [(1000.0, 320.0)], "one clock for tests that begin soon after one another"
    begin(1021.0)
    assert started[1:] == [(1021.0, 320.0)]
    # pytest stops the clock after a failure.
    node: Any = SimpleNamespace(config=config)
    watchdog.pytest_exception_interact(node)
    begin(1022.0)
    assert started[2:] == [(1022.0, 320.0)]
    begin(1023.0, marker=SimpleNamespace(args=(600,)))
    begin(1024.0)
    assert started[3:] == [(1023.0, 920.0), (1024.0, 320.0)]


def _report(channel: Connection) -> None:
    print("printed", flush=True)
    print("warned", file=sys.stderr, flush=True)
    missing = [name for name in MODULES if name not in sys.modules]
    channel.send((os.environ.get("SET_BY_TEST"), os.environ.get("SET_BEFORE"), os.getcwd(), _MEMORY, missing))
    os._exit(7)


_MEMORY: list[str] = []


def test_they_get_environment_folder_and_output_but_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    context = get_context("spawn")
    monkeypatch.setenv("SET_BEFORE", "gone")
    answers = []
    for value in ("1", "2"):
        monkeypatch.setenv("SET_BY_TEST", value)
        monkeypatch.chdir(tmp_path)
        _MEMORY.append("here")
        ours, theirs = context.Pipe()
        process = context.Process(target=_report, args=(theirs,))
        process.start()
        answers.append(ours.recv())
        process.join()
        assert process.exitcode == 7
        monkeypatch.delenv("SET_BEFORE", raising=False)
    assert answers == [("1", "gone", str(tmp_path), [], []), ("2", None, str(tmp_path), [], [])]
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("printed\n" * 2, "warned\n" * 2)
