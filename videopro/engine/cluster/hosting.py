"""What runs on the nodes: a Ray actor that makes a worker, which loads its model once, and passes work to it.

An actor never restarts by itself, and Ray repeats none of its tasks: the pool does both, because it knows
which questions a dead worker was answering.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from videopro import __version__
from videopro.errors import (
    RunError,
    VideoProError,
    WorkerBug,
    cannot_write,
    is_full,
    is_machines,
    machine_error,
)

JobT = TypeVar("JobT", contravariant=True)
ItemT = TypeVar("ItemT", contravariant=True)
ResultT = TypeVar("ResultT", covariant=True)


MOST_IN_FLIGHT = 256
"""The most that a worker's `in_flight` may be. Ray wants the number of an actor's threads before the model is
known, which decides how many it has use for."""


class Worker(Protocol[JobT, ItemT, ResultT]):
    """Does units of work on a node. It never writes into the run's folder."""

    @property
    def in_flight(self) -> int:
        """How many calls of `work` it serves at a time, each in a thread of its own."""

    def identity(self) -> dict[str, object]:
        """What its results depend on, besides the job; equal for all workers of a pool."""

    def work(self, job: JobT, items: Sequence[ItemT]) -> Iterator[tuple[str, ResultT]]:
        """The id of each item and its result, as soon as there is one. An item without a result ends the
        pool's work, such as one that a teacher's cap cut short."""


@dataclass(frozen=True)
class Loaded:
    """What a worker tells when its model is loaded."""

    identity: dict[str, object]
    in_flight: int
    version: str
    """Version of VideoPro on its node."""


class WorkerHost:
    """The Ray actor. Errors travel as values, because Ray wraps what a method raises."""

    def __init__(self) -> None:
        self._worker: Worker[Any, Any, Any] | None = None

    def node(self) -> tuple[str, str]:
        """Id and address of the node."""
        import ray

        util: Any = ray.util
        return ray.get_runtime_context().get_node_id(), util.get_node_ip_address()

    def load(self, make: Callable[[], Worker[Any, Any, Any]], folder: str) -> Loaded | BaseException:
        """Make the worker. Relative paths start at `folder`, if the node has it."""
        # A node without the folder may still have everything by absolute paths; what it lacks is reported by
        # name.
        with suppress(OSError):
            os.chdir(folder)
        try:
            self._worker = make()
            return Loaded(self._worker.identity(), self._worker.in_flight, __version__)
        except Exception as error:
            return _presentable(error)

    def work(self, job: object, items: Sequence[object]) -> Iterator[tuple[str, Any] | BaseException]:
        """The worker's results, and at the end the error that stopped it."""
        assert self._worker is not None
        try:
            yield from self._worker.work(job, items)
        except Exception as error:
            yield _presentable(error)


def _presentable(error: Exception) -> BaseException:
    """The error as the command shows it."""
    if isinstance(error, VideoProError):
        return error
    if isinstance(error, OSError) and is_full(error):
        return RunError(cannot_write(error.filename or "a file", error))
    if is_machines(error):
        return machine_error(error)
    return WorkerBug(traceback.format_exc())
