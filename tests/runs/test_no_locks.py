"""A run folder on a disk without file locks, such as Lustre without its mount option."""

import errno
import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from videopro.data_synthesis.folder import SynthesisFolder
from videopro.engine import Unit, lease
from videopro.errors import RunError
from videopro.runs import RunFolder
from videopro.storage import JsonLinesLog


def logs(folder: Path) -> JsonLinesLog:
    return JsonLinesLog(folder / "traces.jsonl")


def takes_a_unit(folder: Path) -> None:
    unit: Unit[Any] = Unit("v", ())
    with lease(folder, unit):
        pass


WORK: dict[str, Callable[[Path], object]] = {
    "begins": lambda folder: RunFolder(folder / "run").open({}, {"method": "native"}),
    "appends": lambda folder: logs(folder).append({"a": 1}),
    "goes on": lambda folder: logs(folder).cut_torn_tail(),
    "holds": lambda folder: logs(folder).hold(),
    "takes a unit": takes_a_unit,
    "finishes": lambda folder: SynthesisFolder(folder / "data").locked("finish.lock").__enter__(),
}


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
@pytest.mark.parametrize("work", WORK)
def test_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, code: int) -> None:
    def flock(file: Any, how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    why = re.escape(f"cannot be locked ({os.strerror(code)}), because this disk does not support file locks")
    with pytest.raises(RunError, match=f"^{tmp_path}.* {why}.*Lustre mounted with flock"):
        WORK[work](tmp_path)
