"""Files that are written completely or not at all, also by several writers at once; and the lock of an output
folder, which one command has at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from videopro.errors import RunError
from videopro.storage import files, sole_writer, write_atomically

HOLDS = """
import sys, time
from pathlib import Path
from videopro.storage import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("has it", flush=True)
    time.sleep(60)
"""


def test_a_second_command_is_refused_until_the_first_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SOON", 0.2)
    words = [sys.executable, "-c", HOLDS, str(tmp_path / "run")]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "has it\n"
        with pytest.raises(RunError, match=r"run: another command is writing there; .* another output_dir"):
            sole_writer(tmp_path / "run", "output_dir").__enter__()
        with sole_writer(tmp_path / "other"):
            pass
        first.send_signal(signal.SIGKILL)
        first.wait()
        monkeypatch.setattr(files, "_SOON", 5.0)
        with sole_writer(tmp_path / "run"):
            pass
    finally:
        first.kill()


def test_a_lock_that_is_given_back_soon_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "lock").open("w") as theirs, (tmp_path / "lock").open("w") as ours:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        monkeypatch.setattr(time, "sleep", lambda seconds: fcntl.flock(theirs, fcntl.LOCK_UN))
        assert files.lock_soon(ours.fileno(), fcntl.LOCK_EX)


def test_a_disk_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def flock(file: Any, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with sole_writer(tmp_path / "run"):
        pass
    assert "warning: " in (said := capsys.readouterr().err)
    assert "offers no file locks" in said


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/run.*give another --output"):
        sole_writer(tmp_path / "file" / "run").__enter__()


def test_two_writers_of_a_shared_file_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two runs that index the same video at the same time: the second is done while the first writes."""
    path, sync, others = tmp_path / "cost.json", os.fsync, iter(["from another"])

    def written_meanwhile(file: int) -> None:
        sync(file)
        for text in others:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(write_atomically, path, text, shared=True).result()
            assert path.read_text() == text

    monkeypatch.setattr(os, "fsync", written_meanwhile)
    write_atomically(path, "from the first", shared=True)
    assert path.read_text() == "from the first"
    assert [file.name for file in tmp_path.iterdir()] == ["cost.json"]
