"""Workers that tests fork have what a spawned process has, and the modules."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.support.forked_workers import MODULES


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
