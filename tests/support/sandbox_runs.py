"""Running a program in the sandbox and looking at how it failed; its processes, seen from outside; programs
whose parsing would take all memory or time, and a sandbox with one change to its inner side."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from videopro.executor import MAX_CHARS, Executor, Limits, Outcome, process
from videopro.executor.process import ZygoteProcess

ONE = "def execute_command():\n    return 1"

REACH = """\
import enum
m = enum.sys.modules
os, c = m["os"], m["ctypes"]
"""
"""A program's way to every module of its process."""
RAW = f"""\
{REACH}import json

def frame(kind, body):
    return kind.encode() + len(body).to_bytes(4, "big") + body

def send(kind, body):
    data = frame(kind, body)
    while data:
        data = data[os.write(3, data):]

EMPTY = {{"t": [{{"t": []}}, {{"d": []}}]}}

def call(*parts):
    send("c", json.dumps(parts).encode())
"""
"""And to its socket."""


BOMBS = {
    "brackets": "x = " + "(" * 30_000,
    "minus": "x = " + "-" * 60_000 + "1",
    "sum": "x = " + "+".join("a" * 30_000),
    "calls": "x = a" + "()" * 30_000,
    "attributes": "x = a" + ".b" * 30_000,
    "indents": "\n".join(" " * n + "if 1:" for n in range(99)) + "\n" + " " * 99 + "x = 1",
    "lambdas": "x = " + "lambda: " * 8_000 + "1",
    "digits": "x = " + "9" * 60_000,
    "nots": "x = " + "not " * 15_000 + "1",
    "nul": "x = '\x00'",
    "surrogate": "x = '\ud800'",
    "elifs": "if a: pass\n" + "elif b: pass\n" * 5_000,
    "formats": "x = f'" + '{f"{' * 5_000,
    "too long": "x = 1\n" * (MAX_CHARS // 5),
}
"""Programs whose parsing would take all memory or time."""


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with Executor() as made:
        yield made


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Call it with a file of videopro/executor/inside, a text that stands there once, and another: executors
    that start after this use a copy of the folder with that change, and with earlier ones."""

    def alter(name: str, old: str, new: str) -> None:
        if not (tmp_path / "inside").exists():
            shutil.copytree(ROOT / "videopro/executor/inside", tmp_path / "inside")
        path = tmp_path / "inside" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.setattr(process, "_HERE", tmp_path)

    return alter


def body(*lines: str) -> str:
    """A program of these lines."""
    return "def execute_command(video, question):\n" + "\n".join("    " + line for line in lines)


def run(pool: Executor, *lines: str, functions: Any = None, head: str = "", **limits: Any) -> Outcome:
    program = head + "def execute_command(video):\n" + "\n".join("    " + line for line in lines)
    outcome = pool.run(
        program, functions or {}, {"video": object()}, Limits(**{"wall_seconds": 60.0, **limits})
    )
    json.dumps([outcome.log, outcome.output, outcome.calls], allow_nan=False)
    assert pool.run(ONE, {}, {}).value == 1
    return outcome


def failed(outcome: Outcome, kind: str, message: str = "", line: int | None = None) -> None:
    assert outcome.status == "failed", outcome
    assert outcome.value is None
    assert outcome.error is not None
    assert outcome.error.type == kind, outcome.log
    assert message in outcome.error.message
    assert line is None or outcome.error.line == line


def zygote_of(executor: Executor) -> ZygoteProcess:
    assert executor._zygote is not None
    return executor._zygote


def children_of(pid: int) -> list[int]:
    """Oldest first: of an executor's zygote the last one waits for a program."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def status_of(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
