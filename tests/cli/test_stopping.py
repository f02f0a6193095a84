"""How a command line ends when it is stopped from outside or the disk is full; freed memory goes back."""

import errno
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.making_videos import make
from tests.support.number_encoder import NumberEncoder, load_index
from videopro.cli import exit_status
from videopro.errors import ConfigError
from videopro.modules.search import build_index
from videopro.video import Video


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_a_command(
    capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    before = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    done: list[str] = []
    with exit_status("stopped; and so on") as status:
        try:
            os.kill(os.getpid(), number)
            threading.Event().wait(10)
            pytest.fail("the command continued")
        finally:
            done.append("cleared away")
    assert status.code == code
    assert done == ["cleared away"]
    assert capsys.readouterr().err == "\nstopped; and so on\n"
    assert [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)] == before


def test_half_a_line_for_a_closed_terminal_does_not_change_the_status() -> None:
    """What was not printed yet would fail to be at the interpreter's exit, which then returns 120."""
    program = """
import sys, threading
from videopro.cli.process import exit_status
with exit_status() as status:
    print("half a line", end="")
    print("ready", file=sys.stderr)
    threading.Event().wait(60)
sys.exit(status.code)
"""
    pid, terminal = pty.fork()
    if pid == 0:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        os.execvpe(sys.executable, [sys.executable, "-c", program], buffered)
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 1024)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129


def test_a_terminal_that_is_gone_hides_no_signal() -> None:
    """Printing fails during shutdown: the command still counts as stopped."""
    with exit_status() as status:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            threading.Event().wait(10)
        finally:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert status.code == 129


def test_a_full_disk_is_not_an_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    with exit_status() as status:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), "some/file")
    assert status.code == 2
    assert capsys.readouterr().err == (
        "error: some/file: cannot be written (Disk quota exceeded); free some space on that disk, then "
        "re-run the same command to resume\n"
    )
    with pytest.raises(PermissionError), exit_status():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "some/file")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, which is full as long as `ballast` exists."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk; returns the file that does."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def test_an_index_on_a_full_disk(full_disk: Path, tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", list(range(60)), rate=3)
    video = Video.open(tmp_path / "v.mp4")
    ballast = fill(full_disk)
    with pytest.raises(ConfigError, match=r"cannot be written .*\(No space left on device\); free some"):
        build_index(video, NumberEncoder(), root=full_disk)
    assert {path.suffix for path in full_disk.rglob("*") if path.is_file()} == {"", ".lock"}
    ballast.unlink()
    build_index(video, NumberEncoder(), root=full_disk)
    assert load_index(video, NumberEncoder(), root=full_disk) is not None


@pytest.mark.parametrize("write", ["print", "Console().print"])
@pytest.mark.parametrize("lines", [1, 20_000], ids=["in the buffer", "more than a pipe holds"])
def test_output_that_nobody_reads_ends_a_command_quietly(lines: int, write: str) -> None:
    """As in `videopro ... | head`: no traceback, and the status that a shell gives for SIGPIPE."""
    program = f"""
import sys
from rich.console import Console
from videopro.cli.process import exit_status
sys.stdin.readline()
with exit_status() as status:
    {write}("a line\\n" * {lines})
sys.exit(status.code)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    process.stdout = None
    error = process.communicate(b"go\n", timeout=60)[1]
    assert (process.returncode, error) == (128 + signal.SIGPIPE, b"")


def test_another_broken_pipe_is_an_internal_error() -> None:
    with pytest.raises(BrokenPipeError), exit_status():
        raise BrokenPipeError(errno.EPIPE, "a socket of ours")


# 200 MiB of pieces too small for mappings of their own; every hundredth is kept.
_PIECES = """
import re
from pathlib import Path
from videopro.cli.process import trim_heap
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
pieces = [bytearray(b"x") * 100_000 for _ in range(2000)]
kept = pieces[::100]
del pieces
before = resident()
trim_heap()
print(before, resident(), sum(map(len, kept)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_gaps_are_returned_to_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", _PIECES], capture_output=True, text=True, check=True)
    before, after, kept = map(int, run.stdout.split())
    assert kept == 20 * 100_000
    assert before - after > 150, (before, after)
