"""The supervisor of a run's workers on a Ray cluster: the counterpart of `Supervisor`, for many machines.

The workers send traces; only this process writes to the run's folder, so machines never lock files on a
shared disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any, Self

from videopro.benchmarks import Item
from videopro.cli import trim_heap
from videopro.engine import CrashRecord, InFlight, read_crashes, record_crash
from videopro.engine.cluster import Cluster, RaySettings, WorkerPool
from videopro.errors import MachineError, WorkerBug
from videopro.methods import create
from videopro.runs.making.supervisor import Loader
from videopro.runs.making.worker import UnitAnswerer, WorkerJob, blame_machine, died_trace, units_in_flight
from videopro.traces import Trace, TraceLog

_COUNT_SECONDS = 0.5


class ClusterSupervisor(ExitStack):
    """Runs workers on the Ray cluster that RAY_ADDRESS names until no work is left.

    A context manager that leaves no worker behind. As with `Supervisor`, `load` makes the backbone inside
    each worker; call `model_identity()` first, then start the job with `run(job, ...)`. `most`: the maximum
    number of useful workers. `in_flight`: as `WorkerJob.in_flight`.
    """

    def __init__(
        self,
        settings: RaySettings,
        load: Loader,
        method: tuple[str, Mapping[str, Any]],
        *,
        most: int,
        in_flight: int | None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._make = partial(AnsweringWorker, load, method, in_flight)
        self._most = most
        self._pool: WorkerPool[Item, Trace] | None = None

    def __enter__(self) -> Self:
        cluster = self.enter_context(Cluster())
        pool: WorkerPool[Item, Trace] = WorkerPool(cluster, self._make, self._settings, most=self._most)
        self._pool = self.enter_context(pool)
        return self

    def now(self) -> str:
        """Empty: the workers' activity is unknown here."""
        return ""

    def model_identity(self) -> dict[str, object]:
        """Start the workers and wait for the first one to load its backbone. Raises like `run`."""
        assert self._pool is not None
        return self._pool.start()

    def run(self, job: WorkerJob, answered: Callable[[], int]) -> Iterator[int]:
        """Start the workers' job, and write the traces that they send. Yields the number of answered
        questions (from `answered`) a few times a second, until all are answered.

        Raises a worker's VideoProError, WorkerBug for an internal error, and RunError if workers keep dying
        or the cluster is gone.
        """
        assert self._pool is not None
        folder = job.folder
        with closing(TraceLog(folder.traces, run_key=job.run_key, redo=job.redo)) as log:
            log.refresh()
            open_units = [
                replace(unit, items=tuple(item for item in unit.items if not log.is_done(item.id)))
                for unit in job.units
            ]
            pool_work = self._pool.run(
                open_units,
                # The units travel one by one.
                replace(job, units=()),
                read_crashes(folder.crashes),
                partial(record_crash, folder.crashes),
            )
            counted = time.monotonic()
            try:
                for answers, given_up in pool_work:
                    died = [died_trace(item, reason, job) for item, reason in given_up]
                    log.append_all([*(trace for _, trace in answers), *died])
                    # Counting reads the log, and looks at every question of the run.
                    if time.monotonic() - counted >= _COUNT_SECONDS:
                        counted = time.monotonic()
                        yield answered()
            except MachineError as error:
                blame_machine(error, folder)
                raise
            yield answered()
            missing = [item.id for unit in job.units for item in unit.items if not log.is_done(item.id)]
        if missing:
            raise WorkerBug(f"the method has no result for {len(missing)} questions, such as {missing[0]!r}")


class AnsweringWorker:
    """Answers questions on a node, about several videos at a time, with one backbone and the method's module
    models."""

    def __init__(self, load: Loader, method: tuple[str, Mapping[str, Any]], in_flight: int | None) -> None:
        self._backbone = load()
        self._method = create(*method)
        self.in_flight = units_in_flight(in_flight, self._backbone)
        self._making = threading.Lock()
        self._answerer: UnitAnswerer | None = None

    def identity(self) -> dict[str, object]:
        """The backbone's."""
        return self._backbone.identity()

    def work(self, job: WorkerJob, items: Sequence[Item]) -> Iterator[tuple[str, Trace]]:
        """The trace of each question about one video, as soon as it is answered."""
        with self._making:
            if self._answerer is None:
                # The pool knows what a worker answers.
                silent = InFlight(lambda ids: None)
                self._answerer = UnitAnswerer(job, self._method, self._backbone, silent)
        # The pool keeps the questions apart that workers died on.
        for trace in self._answerer.answer(items, CrashRecord.empty()):
            yield trace.question_id, trace
        trim_heap()
