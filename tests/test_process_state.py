"""The guard of the suite's processes: what a test changes is named, and undone before the next test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.making_videos import make

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
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makepyfile(test_changes=_TESTS)
    result = pytester.runpytest_subprocess("-p", "tests.support.process_state", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=len(_CHANGED) + 1, errors=len(_CHANGED))
    said = [line for line in result.outlines if " changed its process: " in line and "::" in line]
    for test, change in _CHANGED.items():
        (line,) = [line for line in said if line.startswith(f"test_changes.py::{test} ")]
        assert line.startswith(f"test_changes.py::{test} changed its process: {change}")


def test_an_av1_film_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    """Its encoder takes real-time priority, as root; the guard would fail this test."""
    assert make(tmp_path / "film.mp4", 3, codec="libsvtav1", options={"preset": "12"}) == [0, 1 / 24, 2 / 24]
    assert (tmp_path / "film.mp4").stat().st_size > 0
