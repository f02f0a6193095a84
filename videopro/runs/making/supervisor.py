"""The supervisor of a run's workers on one machine: starts them, replaces those that die, and stops them.

Workers take questions from a shared queue (`videopro.engine.queue`), so the supervisor only watches them. A
worker exits when the channel to its supervisor closes, for any reason. No model library is imported here; a
worker's `load` does that.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self, TypeAlias

from tqdm import tqdm

from videopro.backbones import Backbone
from videopro.cli import defer_signals, leave_signals_to_parent
from videopro.engine import as_told, record_crash
from videopro.errors import (
    MachineError,
    RunError,
    VideoProError,
    signal_name,
    writing_file,
)
from videopro.methods import create
from videopro.runs.making.worker import WorkerJob, blame_machine, run_worker

# Makes the backbone, inside a worker. Must be picklable: a function of a module, or a partial of one.
Loader: TypeAlias = Callable[[], Backbone]

# What a worker does with a video, in order.
_STAGES = ("opening", "preparing", "indexing", "answering")
# The run stops after this many consecutive crashes per worker without a new answer.
MAX_CRASHES_WITHOUT_RESULT = 6


@dataclass(frozen=True)
class Placement:
    """Where the workers run: how many, on which devices, with how many CPU threads each."""

    workers: int
    threads: int
    devices: tuple[str, ...] = ()
    """Values for CUDA_VISIBLE_DEVICES, which the workers take in turn; empty: leave it unset."""
    rank: int = 0

    def environment(self, index: int) -> dict[str, str]:
        """Environment variables for worker number `index`."""
        variables = {"OMP_NUM_THREADS": str(self.threads)}
        if self.devices:
            variables["CUDA_VISIBLE_DEVICES"] = self.devices[index % len(self.devices)]
        return variables


def place_workers(workers: int, environment: Mapping[str, str]) -> Placement:
    """Where `workers` worker processes of this process run.

    Under accelerate launch or torchrun (LOCAL_RANK is set), they all use this rank's device. Otherwise
    several workers take the machine's devices in turn, and a single worker sees them all. CPU cores are
    divided evenly, unless OMP_NUM_THREADS sets the threads per worker.
    """
    rank = int(environment.get("RANK", "0"))
    visible = [device for device in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    devices: tuple[str, ...] = ()
    if "LOCAL_RANK" in environment:
        local = int(environment["LOCAL_RANK"])
        devices = (visible[local % len(visible)] if visible else str(local),)
    elif workers > 1:
        devices = tuple(visible) if visible else tuple(map(str, range(_device_count())))
    cores = len(os.sched_getaffinity(0))
    here = workers * int(environment.get("LOCAL_WORLD_SIZE", "1"))
    threads = int(environment.get("OMP_NUM_THREADS", max(1, cores // here)))
    return Placement(workers, threads, devices, rank)


def _device_count() -> int:
    import torch

    return torch.cuda.device_count()


@dataclass
class _WorkerProcess:
    index: int
    process: Any
    channel: Connection
    ready: bool = False
    answering: list[str] = field(default_factory=list)
    doing: Mapping[str, int] = field(default_factory=dict)
    error: BaseException | None = None


class Supervisor:
    """Runs workers until no work is left.

    A context manager that leaves no worker behind. `load` makes the backbone inside each worker; with several
    loaders, workers take them in turn. Call `model_identity()` first, then start the job with `run(job,
    ...)`: the run's folder is created in between, so it is not created if the model cannot be loaded.
    """

    def __init__(
        self,
        placement: Placement,
        load: Loader | Sequence[Loader],
        method: tuple[str, Mapping[str, Any]],
    ) -> None:
        self._placement = placement
        self._loaders = [load] if callable(load) else list(load)
        self._method = method
        self._identity: dict[str, object] | None = None
        self._job: WorkerJob | None = None
        self._workers: list[_WorkerProcess] = []
        self._crashes_in_a_row = 0
        """Worker deaths since the last new answer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def model_identity(self) -> dict[str, object]:
        """Start the workers and wait for the first one to load its backbone. Raises like `run`."""
        for index in range(self._placement.workers):
            self._workers.append(self._start(index))
        while self._identity is None:
            self._replace(self._wait())
        return self._identity

    def run(self, job: WorkerJob, answered: Callable[[], int]) -> Iterator[int]:
        """Start the workers' job. Yields the number of answered questions (from `answered`) a few times a
        second, until all are answered.

        Raises a worker's VideoProError, WorkerBug for an internal error, and RunError if workers keep dying;
        KeyboardInterrupt is not caught.
        """
        self._job = job
        for worker in self._workers:
            if worker.ready:
                # The next wait finds a worker that died in the meantime.
                with suppress(OSError):
                    worker.channel.send(job)
        before = 0
        while self._workers:
            ended = self._wait()
            done = answered()
            if done > before:
                self._crashes_in_a_row, before = 0, done
            self._replace(ended)
            yield done

    def now(self) -> str:
        """The workers' activity, such as "indexing 2 videos, answering about 1"; "" if unknown."""
        counts: Counter[str] = Counter()
        for worker in self._workers:
            counts.update(worker.doing)
        parts = []
        for stage in (*_STAGES, *(counts.keys() - set(_STAGES))):
            if many := counts[stage]:
                about = " about" if stage == "answering" else ""
                parts.append(f"{stage}{about} {many} video{'s' if many != 1 else ''}")
        return ", ".join(parts)

    def _wait(self) -> list[_WorkerProcess]:
        """Wait for messages of the workers, briefly. Returns the workers that have ended."""
        # Briefly: progress is shown in between.
        wait([worker.channel for worker in self._workers], timeout=0.2)
        return [worker for worker in self._workers if self._listen(worker)]

    def _replace(self, ended: Sequence[_WorkerProcess]) -> None:
        """Start another worker for each one that died; raise what a worker raised."""
        for worker in ended:
            self._workers.remove(worker)
            if worker.error is not None:
                if self._job is not None:
                    blame_machine(worker.error, self._job.folder)
                raise worker.error
            if worker.process.exitcode != 0:
                self._crashes_in_a_row += 1
                self._died(worker)
                self._workers.append(self._start(worker.index))

    def _start(self, index: int) -> _WorkerProcess:
        # Not forked: a copy of this process would have its threads' locks, and CUDA cannot be used in one.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_main,
            args=(theirs, index, self._placement, self._loaders[index % len(self._loaders)], self._method),
            name=f"worker-{index}",
        )
        # A child inherits the environment at its start. Ctrl-C, SIGTERM and SIGHUP may reach every process of
        # a run; only the supervisor acts on them.
        variables = self._placement.environment(index)
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            with defer_signals():
                process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        # Only the child may hold its end; otherwise its death would not close the channel.
        theirs.close()
        return _WorkerProcess(index, process, ours)

    def _listen(self, worker: _WorkerProcess) -> bool:
        """Read a worker's messages; True when it has ended."""
        try:
            while worker.channel.poll():
                kind, content = worker.channel.recv()
                if kind == "ready":
                    worker.ready = True
                    self._agree(worker, content)
                elif kind == "answering":
                    worker.answering = content
                elif kind == "doing":
                    worker.doing = content
                else:
                    worker.error = content
        except (EOFError, OSError):
            worker.process.join()
            worker.channel.close()
            return True
        return False

    def _agree(self, worker: _WorkerProcess, identity: dict[str, object]) -> None:
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise RunError(
                f"worker {worker.index} loaded a different model than the others ({identity} instead of "
                f"{self._identity}); check whether its files changed, and re-run the same command to resume"
            )
        if self._job is not None:
            worker.channel.send(self._job)

    def _died(self, worker: _WorkerProcess) -> None:
        """Record a worker's death. Raises RunError if starting another worker would not help."""
        code = worker.process.exitcode
        how = f"killed by signal {-code} ({signal_name(-code)})" if code < 0 else f"exit status {code}"
        if not worker.ready and self._crashes_in_a_row > 1:
            raise RunError(
                f"worker {worker.index} died twice while loading the model ({how}); check that there is "
                f"enough memory for {self._placement.workers} workers"
            )
        if self._crashes_in_a_row >= MAX_CRASHES_WITHOUT_RESULT * self._placement.workers:
            raise RunError(
                f"workers died {self._crashes_in_a_row} times in a row without a new answer (last: "
                f"{how}); see the logs"
            )
        if self._job is not None:
            if worker.answering:
                reason = f"the worker that answered it died ({how})"
                record_crash(self._job.folder.crashes, worker.answering, reason)
            print(f"worker {worker.index} died ({how}); starting another", file=sys.stderr)

    def _stop(self) -> None:
        for worker in self._workers:
            # Closing the channel ends the worker; one that does not end in time is killed.
            worker.channel.close()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


class _Channel:
    """A worker's end of the channel: it reports, waits for its job, and exits with its supervisor."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._has_job = threading.Event()
        self._job: WorkerJob | None = None
        # Long messages are written in two parts, and units report from their own threads.
        self._sending = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def job(self) -> WorkerJob:
        self._has_job.wait()
        assert self._job is not None
        return self._job

    def send(self, kind: str, content: Any) -> None:
        try:
            with self._sending:
                self._channel.send((kind, content))
        except OSError:
            os._exit(1)

    def answering(self, ids: Sequence[str]) -> None:
        self.send("answering", list(ids))

    def doing(self, counts: Mapping[str, int]) -> None:
        self.send("doing", dict(counts))

    def _watch(self) -> None:
        try:
            while True:
                self._job = self._channel.recv()
                self._has_job.set()
        except (EOFError, OSError):
            # The supervisor has exited. Work may be left unfinished: a torn line is cut later, and the kernel
            # releases the lease.
            os._exit(1)


def _main(
    connection: Connection,
    index: int,
    placement: Placement,
    load: Loader,
    method: tuple[str, Mapping[str, Any]],
) -> None:
    """A worker process."""
    leave_signals_to_parent()
    # By default tqdm makes a lock between processes, which would be reported as leaked whenever a worker is
    # killed.
    tqdm.set_lock(threading.RLock())
    channel = _Channel(connection)
    log = Path("a file")
    status = 0
    try:
        backbone = load()
        channel.send("ready", backbone.identity())
        job = channel.job()
        log = job.folder.logs / f"rank{placement.rank}-worker{index}.log"
        _log_to(log)
        run_worker(job, create(*method), backbone, channel)
        backbone.close()
    except Exception as error:
        told = as_told(error, log)  # Full is most likely the log, which receives what libraries print.
        if told is not error or isinstance(error, MachineError):
            # The traceback is in the worker's log too, if that can be written.
            with suppress(OSError):
                traceback.print_exc()
        channel.send("error", told)
        status = 2 if isinstance(told, VideoProError) else 1
    if status:
        # At once: threads may still be answering, and wait for a server that is gone.
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _log_to(path: Path) -> None:
    """Redirect what libraries print to a log of the run, away from the terminal. Raises RunError."""
    with writing_file(path, "set another --output"):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, f"-- {time.strftime('%Y-%m-%d %H:%M:%S')} pid {os.getpid()}\n".encode())
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    # A crash in native code leaves its stack in the log.
    faulthandler.enable()
