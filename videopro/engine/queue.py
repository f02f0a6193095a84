"""The queue of a run: units of questions, leases on them, and the questions that crashed a worker.

A unit is a few questions about one video. The process that holds the lock of its lease file works on it. The
kernel releases a lock when its holder dies, however it dies, so leases need no expiry; any number of
processes, started together or not, may work on a run. The trace log prevents duplicates. `Walk` is for things
that lock themselves, such as indexes: what another process is at is put off.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import random
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from videopro.errors import (
    ConfigError,
    RunError,
    VideoProError,
    WorkerBug,
    cannot_lock,
    cannot_write,
    is_full,
    is_machines,
    machine_error,
    writing_file,
)
from videopro.storage import JsonLinesLog, parse_json
from videopro.traces import Failure

# Questions per unit: enough to share the video's encoding, few enough that the last video of a run does not
# keep one worker busy while the others are idle.
UNIT_SIZE = 16

# A question is quarantined after its worker has died this often while answering it alone.
QUARANTINE_AFTER = 2


class VideoQuestion(Protocol):
    """What the queue needs of a question, such as `videopro.benchmarks.Item`."""

    @property
    def id(self) -> str: ...

    @property
    def video_key(self) -> str: ...


ItemT = TypeVar("ItemT", bound=VideoQuestion)


@dataclass(frozen=True)
class Unit(Generic[ItemT]):
    """Questions about one video, in the benchmark's order."""

    key: str
    items: tuple[ItemT, ...]


def units(items: Sequence[ItemT]) -> list[Unit[ItemT]]:
    """Split the questions of a run into units, with the videos in the order of their first question."""
    by_video: dict[str, list[ItemT]] = {}
    for item in items:
        by_video.setdefault(item.video_key, []).append(item)
    batches = []
    for video, its_items in by_video.items():
        for start in range(0, len(its_items), UNIT_SIZE):
            # From the video and the first question's number alone: every process on the run must name the
            # same unit the same, and a video's path may be too long, or hold slashes, for a file's name.
            name = hashlib.sha256(f"{video}\0{start}".encode()).hexdigest()[:24]
            batches.append(Unit(name, tuple(its_items[start : start + UNIT_SIZE])))
    return batches


def share_of_units(left: int, workers: int) -> int:
    """How many of the units that are left one of `workers` may have in flight: the first one that is ready
    leaves the others theirs."""
    return max(1, math.ceil(left / max(1, workers)))


@contextmanager
def lease(folder: Path, unit: Unit[Any]) -> Iterator[bool]:
    """Try to lock a unit within the block; yields False if another process holds it. Raises RunError if the
    lease file cannot be created or locked."""
    path = folder / f"{unit.key}.lease"
    with writing_file(path):
        # The file is never removed: another process might hold a lock on the one that is gone, and both would
        # work.
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            raise RunError(cannot_lock(path, error)) from error
        yield True
    finally:
        os.close(file)


def record_crash(path: Path, ids: Sequence[str], reason: str) -> None:
    """Record that a worker died while answering these questions. Only a supervisor that saw it die calls
    this: if a whole run is killed, no question is blamed."""
    with JsonLinesLog(path) as log:
        log.append({"ids": list(ids), "reason": reason})


def as_told(error: Exception, file: Path | str = "a file") -> BaseException:
    """An error that ends a worker, as its command shows it. Call it where it is caught. `file`: the one that
    most likely is full, if the error names none."""
    if isinstance(error, VideoProError):
        return error
    if isinstance(error, OSError) and is_full(error):
        return RunError(cannot_write(error.filename or file, error))
    return machine_error(error) if is_machines(error) else WorkerBug(traceback.format_exc())


def worker_died(reason: str) -> Failure:
    """The error of a question that is given up, because workers died on it; `reason`: the last death's."""
    return Failure("WorkerDied", f"{reason}, as did earlier workers on this question")


@dataclass(frozen=True)
class CrashRecord:
    """How often each question was in flight, and how often it was alone, when a worker died."""

    in_flight: Counter[str]
    alone: Counter[str]
    reasons: dict[str, str]
    fewest: dict[str, int] = field(default_factory=dict)
    """The least number of questions that were in flight when a worker died with this one among them."""

    def must_run_apart(self, question_id: str) -> bool:
        """Whether no question of another unit should be in flight with it in its worker, so that another
        crash says more."""
        return question_id in self.fewest

    @classmethod
    def empty(cls) -> CrashRecord:
        """No crash so far."""
        return cls(Counter(), Counter(), {})

    def add(self, ids: Sequence[str], reason: str) -> None:
        """Another worker died while it answered these questions."""
        for question_id in ids:
            self.in_flight[question_id] += 1
            self.alone[question_id] += len(ids) == 1
            self.fewest[question_id] = min(len(ids), self.fewest.get(question_id, len(ids)))
            self.reasons[question_id] = reason

    def must_run_alone(self, question_id: str) -> bool:
        """Whether it should be answered alone, so that another crash identifies the question. Of more
        questions than a unit has, the unit is found first: most of them are answered as fast as before."""
        return self.fewest.get(question_id, UNIT_SIZE + 1) <= UNIT_SIZE

    def is_quarantined(self, question_id: str) -> bool:
        """Whether the question is skipped, recorded as an error."""
        return self.alone[question_id] >= QUARANTINE_AFTER


def read_crashes(path: Path) -> CrashRecord:
    """The crashes recorded so far; incomplete or invalid lines are ignored."""
    record = CrashRecord.empty()
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return record
    for line in lines:
        try:
            crash = parse_json(line)
            ids, reason = [str(question_id) for question_id in crash["ids"]], str(crash["reason"])
        # A supervisor that was killed while it wrote may leave half a line; a crash less only costs another
        # try.
        except (ValueError, TypeError, KeyError):
            continue
        record.add(ids, reason)
    return record


T = TypeVar("T")

# Seconds between two looks at what other processes are at.
POLL_SECONDS = 0.5


class Walk(Generic[T]):
    """Hands items out to the threads of this process, in their order. Once another process was at one of
    them, they come in a random order, so that the two do not wait for each other at every item.
    Thread-safe."""

    def __init__(self, items: Sequence[T]) -> None:
        self._left = list(items)
        self._put_off: list[T] = []
        self._is_contended = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def take(self) -> T | None:
        """The next item to work on; None when none is left, or after `stop`. While other processes are
        at all that are left, it waits, and returns one of those for another look."""
        while not self._stopped.is_set():
            with self._lock:
                if self._left:
                    return self._left.pop(random.randrange(len(self._left)) if self._is_contended else 0)
                if not self._put_off:
                    return None
            if not self._stopped.wait(POLL_SECONDS):
                with self._lock:
                    self._left, self._put_off = self._left + self._put_off, []
        return None

    def put_off(self, item: T) -> None:
        """Another process works on it: come back later to see whether it is done."""
        with self._lock:
            self._is_contended = True
            self._put_off.append(item)

    def stop(self) -> None:
        """Hand out nothing more."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()


def shard(items: Sequence[T], part: str) -> list[T]:
    """Part i of n of the items, for `part` "i/n", counted from 1: every n-th, so that the parts together are
    all of them, and no two share one. Raises ConfigError for another form."""
    number, slash, count = part.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ConfigError(f"shard is {part!r}; write i/n with i from 1 to n, such as 2/8")
    return list(items[int(number) - 1 :: int(count)])
