"""Running a program in the sandbox and looking at how it failed; its processes, seen from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from videopro.executor import Executor, Limits, Outcome
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


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with Executor() as made:
        yield made


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
