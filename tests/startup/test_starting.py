"""Ctrl-C while a command starts: one line and status 130, through every door, and nothing for programs that
only use the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from videopro.commands.reproduce.stages import Command

_INTERRUPTED = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except BaseException:
    # As some libraries do with whatever ends their import.
    raise RuntimeError("this library cannot be imported")
"""


def _run(words: list[str], stub: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{stub}{os.pathsep}{ROOT}"}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_what_accelerate_launches_does_its_work(tmp_path: Path) -> None:
    """A module without a door of its own would end at once, with status 0."""
    for name in ("infer", "sft", "grpo"):
        launched = Command(name, ("--help",), launch=("--num_processes", "2")).argv
        words = [sys.executable, *launched[launched.index("-m", 2) :]]
        assert f"videopro {name}" in _run(words, tmp_path).stdout


@pytest.mark.parametrize(
    ("door", "library"),
    [
        (["-m", "videopro", "infer"], "av"),
        (["-m", "videopro.infer"], "cyclopts"),
        (["-u", "-m", "videopro.train.sft"], "accelerate"),
        (["train/sft.py"], "accelerate"),
        (["data_synthesis/run.py"], "cyclopts"),
        (["HERE/bin/videopro", "infer"], "cyclopts"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_ctrl_c_during_an_import_is_one_line(door: list[str], library: str, tmp_path: Path) -> None:
    """The last is the script that pip writes for an entry point."""
    (tmp_path / f"{library}.py").write_text(_INTERRUPTED)
    (tmp_path / "bin").mkdir()
    script = "import sys\nfrom videopro.__main__ import main\nsys.exit(main())\n"
    (tmp_path / "bin" / "videopro").write_text(script)
    done = _run([sys.executable, *(word.replace("HERE", str(tmp_path)) for word in door)], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nstopped\n")


def test_a_program_that_uses_the_package_keeps_its_own_handling(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text(
        "import signal, videopro\nassert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    done = _run([sys.executable, str(program), "-m", "videopro"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_ignored_ctrl_c_stays_ignored(tmp_path: Path) -> None:
    """A shell starts a job in the background of a script with SIGINT ignored."""
    words = [sys.executable, "-m", "videopro", "--version"]
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "atexit.register(lambda: print(signal.getsignal(signal.SIGINT).name))\n"
    )
    done = _run(words, tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "SIG_IGN")
