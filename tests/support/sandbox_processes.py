"""The sandbox's processes, seen from outside."""

from __future__ import annotations

from pathlib import Path

from videopro.executor import (
    Executor,
)

ONE = "def execute_command():\n    return 1"


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def children_of(pid: int) -> list[int]:
    """Oldest first: of an executor's zygote the last one waits for a program."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def zygote_of(executor: Executor) -> int:
    assert executor._zygote is not None
    return executor._zygote.pid
