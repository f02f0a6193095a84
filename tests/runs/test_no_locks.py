"""A run folder on a disk without file locks, such as Lustre without its mount option."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from videopro.data_synthesis.folder import SynthesisFolder
from videopro.engine import Unit, lease
from videopro.errors import RunError
from videopro.runs import RunFolder
from videopro.storage import JsonLinesLog


def begins(folder: Path) -> None:
    RunFolder(folder / "run").open({}, {"method": "native"})


def appends(folder: Path) -> None:
    with JsonLinesLog(folder / "traces.jsonl") as log:
        log.append({"a": 1})


def goes_on(folder: Path) -> None:
    with JsonLinesLog(folder / "traces.jsonl") as log:
        log.cut_torn_tail()


def holds(folder: Path) -> None:
    with JsonLinesLog(folder / "grades.jsonl") as log:
        log.hold()


def takes_a_unit(folder: Path) -> None:
    unit: Unit[Any] = Unit("v", ())
    with lease(folder, unit):
        pass


def finishes(folder: Path) -> None:
    with SynthesisFolder(folder / "data").locked("finish.lock"):
        pass


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
@pytest.mark.parametrize("work", [begins, appends, goes_on, holds, takes_a_unit, finishes])
def test_the_message_names_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], None], code: int
) -> None:
    def flock(file: Any, how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(RunError) as caught:
        work(tmp_path)
    said = str(caught.value)
    assert said.startswith(str(tmp_path))
    assert f"cannot be locked ({os.strerror(code)}): this disk offers no file locks to this machine" in said
    assert "a local disk, NFS with its lock service, Lustre mounted with flock" in said


def test_a_lock_that_another_process_has_is_not_a_missing_one(tmp_path: Path) -> None:
    with JsonLinesLog(tmp_path / "grades.jsonl") as first, JsonLinesLog(tmp_path / "grades.jsonl") as second:
        assert first.hold()
        assert not second.hold()
