"""The queue of a run: which questions are taken together, who holds them, and which of them killed a worker.

A unit is some questions of one video. Whoever holds the lock of its lease file works on it. The kernel gives
a lock back when its holder dies, however it dies, so there is no lease to expire and none to break; any
number of processes, started together or not, may work on one run. Duplicates are ruled out by the log, not
here. Knows items and files, and nothing of methods or processes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from videopro.errors import RunError
from videopro.storage import JsonLinesLog, cannot_write, parse_json

# Questions about one video that are handed out together: many enough to share the video's encoding, few
# enough that the last video of a run does not keep one worker busy while the others have nothing left.
UNIT_SIZE = 16

# A question that was being answered alone when its worker died this often is given up: it is the cause.
QUARANTINE_AFTER = 2


class Asked(Protocol):
    """A question about a video, such as `videopro.benchmarks.Item`."""

    @property
    def id(self) -> str: ...

    @property
    def video_key(self) -> str: ...


ItemT = TypeVar("ItemT", bound=Asked)


@dataclass(frozen=True)
class Unit(Generic[ItemT]):
    """Questions about one video, in the benchmark's order."""

    key: str
    items: tuple[ItemT, ...]


def units(items: Sequence[ItemT]) -> list[Unit[ItemT]]:
    """Cut the questions of a run into units, videos in the order of their first question."""
    by_video: dict[str, list[ItemT]] = {}
    for item in items:
        by_video.setdefault(item.video_key, []).append(item)
    made = []
    for video, its_items in by_video.items():
        for start in range(0, len(its_items), UNIT_SIZE):
            name = hashlib.sha256(f"{video}\0{start}".encode()).hexdigest()[:24]
            made.append(Unit(name, tuple(its_items[start : start + UNIT_SIZE])))
    return made


@contextmanager
def lease(folder: Path, unit: Unit[Any]) -> Iterator[bool]:
    """Try to hold a unit for the length of the block; False if another process holds it. Raises RunError."""
    path = folder / f"{unit.key}.lease"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            raise RunError(
                f"{path}: this file system has no file locks ({error.strerror}), which a run needs; give an "
                "--output on another one"
            ) from error
        yield True
    finally:
        os.close(file)


def record_crash(path: Path, ids: Sequence[str], reason: str) -> None:
    """Note that a worker died while these questions were being answered. Only a supervisor that saw it calls
    this: a run that was killed as a whole blames no question."""
    with JsonLinesLog(path) as log:
        log.append({"ids": list(ids), "reason": reason})


@dataclass(frozen=True)
class CrashRecord:
    """How often each question was in flight, and how often it was alone, when a worker died."""

    together: Counter[str]
    alone: Counter[str]
    reasons: dict[str, str]

    def must_run_alone(self, question_id: str) -> bool:
        """Whether it should be answered alone, so that another death tells which question it was."""
        return self.together[question_id] > 0

    def is_quarantined(self, question_id: str) -> bool:
        """Whether it should be given up."""
        return self.alone[question_id] >= QUARANTINE_AFTER


def read_crashes(path: Path) -> CrashRecord:
    """The deaths recorded so far; a line that is torn, or no death, is left out."""
    suspicion = CrashRecord(Counter(), Counter(), {})
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return suspicion
    for line in lines:
        try:
            death = parse_json(line)
            ids, reason = [str(one) for one in death["ids"]], str(death["reason"])
        except (ValueError, TypeError, KeyError):
            continue
        for one in ids:
            suspicion.together[one] += 1
            suspicion.alone[one] += len(ids) == 1
            suspicion.reasons[one] = reason
    return suspicion
