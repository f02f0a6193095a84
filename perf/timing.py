"""Wall and CPU seconds of a piece of work, taken in the same way by every script.

CPU seconds say more than wall time on a machine that does other work. They are the user and system time of
this process with all its threads, of its children, and of theirs. Imports the standard library alone, so that
an environment without VideoPro can use it too.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Spent:
    """What a piece of work took. Zero until it has ended."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def rounded(self, digits: int = 1) -> dict[str, float]:
        """Both, as a JSON object."""
        return {"wall_s": round(self.wall_s, digits), "cpu_s": round(self.cpu_s, digits)}

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} s, {self.cpu_s:.1f} CPU s"


@contextmanager
def timed() -> Iterator[Spent]:
    """Time the block. The figures are there at its end, also if it raises."""
    spent = Spent()
    cpu = cpu_seconds()
    wall = time.perf_counter()
    try:
        yield spent
    finally:
        spent.wall_s = time.perf_counter() - wall
        spent.cpu_s = cpu_seconds() - cpu


def cpu_seconds() -> float:
    """The CPU seconds of this process and its descendants so far.

    The kernel adds a child's time to its parent's when the parent has waited for it. The time of those that
    still run, such as a sandbox, is read from /proc, in units of 10 ms.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) + _of_running_descendants()


def _of_running_descendants() -> float:
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It has ended meanwhile.
            # After the name, which may contain anything: the state, the parent, and from the 12th on the user
            # and system time of the process and of the children that it has waited for.
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
            parents[int(process.name)] = int(fields[1])
            ticks[int(process.name)] = sum(map(int, fields[11:15]))
    root, total = os.getpid(), 0
    for pid, used in ticks.items():
        above = parents[pid]
        while above in parents and above != root:
            above = parents[above]
        total += used if above == root else 0
    return total / os.sysconf("SC_CLK_TCK")


def shown(seconds: float | None, digits: int = 2) -> str:
    """Seconds for a table; "-" for a row that was recorded without them."""
    return "-" if seconds is None else f"{seconds:.{digits}f}"
