"""Files that are written completely or not at all, the lock of an output folder, and the file under every
log: complete lines at any moment, even if writers die or the disk is full."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from videopro.errors import RunError
from videopro.storage import JsonLinesLog, files, sole_writer, write_atomically

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
    assert "does not support file locks" in said


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/run.*pass another --output"):
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


# ---- logs -------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/log\.jsonl: cannot be opened"):
        JsonLinesLog(tmp_path / "file" / "log.jsonl", make_folder=True)
    with pytest.raises(RunError, match=r"none\.jsonl: cannot be opened"):
        JsonLinesLog(tmp_path / "none.jsonl", writable=False)


@pytest.mark.parametrize("torn", [b"x", b'{"n": ' + b"9" * 200_000])
def test_a_torn_tail_is_never_read_and_goes_with_the_next_append(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "log.jsonl"
    for before in (b"", b'{"n": 1}\n', b"a" * 70_000 + b"\n"):
        path.write_bytes(before + torn)
        with JsonLinesLog(path, writable=False) as log:
            assert log.read() == before
        assert path.read_bytes() == before + torn, "reading leaves a file alone"
        with JsonLinesLog(path) as log:
            log.append({"n": 2})
            log.append({"n": 3})
            assert log.torn == 1
            assert log.read(len(before)) == b'{"n": 2}\n{"n": 3}\n'
        assert path.read_bytes() == before + b'{"n": 2}\n{"n": 3}\n'


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JsonLinesLog(tmp_path / "log.jsonl")
    log.append({"n": 1})
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(RunError, match="No space left on device"):
        log.append({"n": 2}, {"n": 3})
    monkeypatch.undo()
    log.append({"n": 4})
    log.close()
    assert (tmp_path / "log.jsonl").read_text() == '{"n": 1}\n{"n": 4}\n'


def test_a_lock_on_a_file_is_exclusive(tmp_path: Path) -> None:
    first, second = JsonLinesLog(tmp_path / "log.jsonl"), JsonLinesLog(tmp_path / "log.jsonl")
    assert first.hold()
    first.append({"n": 1})
    assert not second.hold(), "an append does not give the lock back"
    first.close()
    assert second.hold()
    second.close()


def test_lines_can_be_flushed_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, may = [0], threading.Event()

    def slow(file: int) -> None:
        assert may.wait(60)
        flushed[0] += 1

    monkeypatch.setattr(os, "fsync", slow)
    log = JsonLinesLog(tmp_path / "log.jsonl", syncs_behind=True)
    for n in range(20):
        log.append({"n": n})
    assert log.read().count(b"\n") == 20, "no append waited for the disk"
    may.set()
    log.close()
    assert 1 <= flushed[0] <= 2, "one flush for all that was appended meanwhile"


def test_a_flush_that_fails_behind_is_an_error_of_the_next_append_or_of_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    log = JsonLinesLog(tmp_path / "log.jsonl", syncs_behind=True)
    log.append({"n": 1})

    def go_on() -> None:
        for n in range(2, 1000):
            log.append({"n": n})
            time.sleep(0.01)

    with pytest.raises(RunError, match="No space left on device"):
        go_on()
    with pytest.raises(RunError, match="No space left on device"):
        log.close()
