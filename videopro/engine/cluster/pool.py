"""A pool of workers on a Ray cluster: hands out units of work, collects the results, and replaces workers
that die.

The pool runs in one process, the command's, which alone writes what is kept. A worker is a Ray actor
(`WorkerHost`) with a share of a node's CPUs, GPUs and memory, which loads its model once. Ray neither
restarts one nor repeats its tasks: the pool does both, because it knows which items are done.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from videopro import __version__
from videopro.engine.cluster.connection import Cluster, RaySettings, Share
from videopro.engine.queue import CrashRecord, Unit, as_told, share_of_units
from videopro.errors import (
    RunError,
    WorkerBug,
)

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

MOST_IN_FLIGHT = 256
"""The most that a worker's `in_flight` may be. Ray wants the number of an actor's threads before the model is
known, which decides how many it has use for."""
# The work stops after this many consecutive deaths per worker without a new result.
MAX_DEATHS_WITHOUT_RESULT = 6
# Short enough that results are on the disk at once, and long enough to cost nothing.
_TICK_SECONDS = 0.2
_WAITING_SECONDS = 30.0


class Worker(Protocol):
    """Does units of work on a node. It never writes into the run's folder."""

    @property
    def in_flight(self) -> int:
        """How many calls of `work` it serves at a time, each in its own thread."""

    def identity(self) -> dict[str, object]:
        """What its results depend on, except the job; equal for all workers of a pool."""

    def work(self, job: Any, items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """The id of each item and its result, as soon as there is one. An item without a result ends the
        pool's work, such as one that a teacher's cap cut short."""


# ---- on the nodes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loaded:
    """What a worker reports when its model is loaded."""

    identity: dict[str, object]
    in_flight: int
    version: str
    """Version of VideoPro on its node."""
    address: str


class WorkerHost:
    """The Ray actor. Errors travel as values, because Ray wraps what a method raises."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def load(self, make: bytes, folder: str) -> Loaded | BaseException:
        """Make the worker. Relative paths start at `folder`, if the node has it."""
        import ray

        util: Any = ray.util
        address = util.get_node_ip_address()
        # A node without the folder may still have everything by absolute paths; what it lacks is reported by
        # name.
        with suppress(OSError):
            os.chdir(folder)
        try:
            self._worker = pickle.loads(make)()
            return Loaded(self._worker.identity(), self._worker.in_flight, __version__, address)
        except ImportError as error:
            return RunError(f"node {address} lacks a package of this command ({error}); install it there")
        except Exception as error:
            return as_told(error)

    def work(self, job: object, items: Sequence[object]) -> Iterator[tuple[str, Any] | BaseException]:
        """The worker's results, and at the end the error that stopped it."""
        assert self._worker is not None
        try:
            yield from self._worker.work(job, items)
        except Exception as error:
            yield as_told(error)


# ---- in the command ----------------------------------------------------------------------------------------


class Schedule(Generic[ItemT]):
    """The items that no worker has. Those on which workers died go apart from others or are given up, by the
    rules of the queue on one machine (`CrashRecord`)."""

    def __init__(self, units: Sequence[Unit[Any]], crashes: CrashRecord) -> None:
        self.crashes = crashes
        self.shared: deque[tuple[ItemT, ...]] = deque()
        """Items of one video each, for workers that may have others too."""
        self.apart: deque[tuple[ItemT, ...]] = deque()
        """Items for a worker that has nothing else meanwhile, so that another death says more."""
        self.given_up: list[tuple[ItemT, str]] = []
        """Items that are given up, each with the reason."""
        for unit in units:
            self.add(unit.items)

    def add(self, items: Sequence[ItemT]) -> None:
        """Items of one video, new or those that a dead worker had."""
        shared, apart = [], []
        for item in items:
            name = _id(item)
            if self.crashes.is_quarantined(name):
                self.given_up.append((item, self.crashes.reasons[name]))
            elif self.crashes.must_run_alone(name):
                self.apart.append((item,))
            elif self.crashes.must_run_apart(name):
                apart.append(item)
            else:
                shared.append(item)
        if apart:
            self.apart.append(tuple(apart))
        if shared:
            self.shared.append(tuple(shared))

    def stop(self) -> None:
        """Hand out no more units."""
        self.shared.clear()
        self.apart.clear()


@dataclass(eq=False)
class Member(Generic[ItemT]):
    """A worker as the pool sees it."""

    actor: Any
    loading: Any = None
    """The call that loads its model; None once that is done."""
    in_flight: int = 1
    """How many tasks it may have at a time."""
    tasks: dict[Any, tuple[ItemT, ...]] = field(default_factory=dict)
    """The items that it works on, by the stream of their results."""
    is_apart: bool = False
    """Whether its only task has to stay that."""

    def give(self, items: tuple[ItemT, ...], job: Any) -> None:
        """Let it work on these items."""
        self.tasks[self.actor.work.options(num_returns="streaming").remote(job, items)] = items

    def kill(self) -> None:
        """End its process."""
        import ray

        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(self.actor, no_restart=True)


class WorkerPool(Generic[ItemT, ResultT]):
    """Workers made by `make` on the nodes of a cluster; within a `with` block, which ends them all.

    `make` must be picklable. `most`: more workers have nothing to do. Call `start` first, then `run`.
    """

    def __init__(
        self, cluster: Cluster, make: Callable[[], Worker], settings: RaySettings, *, most: int
    ) -> None:
        self._cluster = cluster
        self._make = make
        self._settings = settings
        self._most = max(1, most)
        self._members: list[Member[ItemT]] = []
        self._schedule: Schedule[ItemT] = Schedule((), CrashRecord.empty())
        self._record_death: Callable[[Sequence[str], str], object] = lambda ids, reason: None
        self._done: set[str] = set()
        self._identity: dict[str, object] | None = None
        self._share = Share(1.0, 0.0, 0)
        self._deaths_in_a_row = 0
        self._waited = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for member in self._members:
            member.kill()

    def start(self) -> dict[str, object]:
        """Start the workers, and wait for the first one to load its model. Returns its identity.

        Raises ConfigError for shares that no node has, what a worker raised while it loaded, and RunError if
        workers die or the cluster does.
        """
        nodes = self._cluster.nodes()
        self._share = self._settings.share(nodes)
        for _ in range(min(self._settings.count(self._share, nodes), self._most)):
            self._start_member()
        while self._identity is None:
            self._listen()
        return self._identity

    def run(
        self,
        units: Sequence[Unit[Any]],
        job: object,
        crashes: CrashRecord,
        died: Callable[[Sequence[str], str], object],
    ) -> Iterator[tuple[list[tuple[str, ResultT]], list[tuple[ItemT, str]]]]:
        """Do the units. Yields a few times a second the new results by their items' ids, and the items that
        were given up, because workers died on them twice, with the reason.

        `job` goes to every call of `Worker.work`; `died(ids, reason)` records a worker's death. Raises what a
        worker raised, and RunError if workers keep dying or the cluster is gone.
        """
        import ray

        self._schedule = Schedule(units, crashes)
        self._record_death = died
        shared_job = ray.put(job)
        results: list[tuple[str, ResultT]] = []
        while True:
            given_up, self._schedule.given_up = self._schedule.given_up, []
            self._done.update(_id(item) for item, _ in given_up)
            yield results, given_up
            self._hand_out(shared_job)
            if not any(member.tasks for member in self._members) and not (
                self._schedule.shared or self._schedule.apart
            ):
                return
            results = self._listen()
            if results:
                self._deaths_in_a_row = 0

    def _hand_out(self, job: Any) -> None:
        schedule = self._schedule
        ready = sorted((m for m in self._members if m.loading is None), key=lambda m: len(m.tasks))
        for member in ready:
            if not member.tasks:
                member.is_apart = bool(schedule.apart)
                if schedule.apart:
                    member.give(schedule.apart.popleft(), job)
        shared = [member for member in ready if not member.is_apart]
        if schedule.apart:
            # The least busy one gets nothing more, until it has nothing else.
            shared = shared[1:]
        # In turn, and no more than a worker's share, which one that is still loading gets too.
        left = len(schedule.shared) + sum(len(member.tasks) for member in self._members)
        most = share_of_units(left, len(self._members))
        while schedule.shared and (free := [m for m in shared if len(m.tasks) < min(m.in_flight, most)]):
            min(free, key=lambda m: len(m.tasks)).give(schedule.shared.popleft(), job)

    def _listen(self) -> list[tuple[str, ResultT]]:
        """Wait briefly for reports of workers, and return new results. Raises what a worker raised."""
        import ray

        waiting = {
            ref: member
            for member in self._members
            for ref in (*member.tasks, *([] if member.loading is None else [member.loading]))
        }
        ready: list[Any] = []
        if waiting:
            # The first call returns as soon as one result is there; the second takes all others that are
            # there too.
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_TICK_SECONDS)
            if ready:
                ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        else:
            time.sleep(_TICK_SECONDS)
        results: list[tuple[str, ResultT]] = []
        for ref in ready:
            member = waiting[ref]
            if member not in self._members:
                continue  # It died a moment ago.
            is_stream = ref in member.tasks
            try:
                message: Any = ray.get(next(ref) if is_stream else ref)
            except StopIteration:
                if any(_id(item) not in self._done for item in member.tasks.pop(ref)):
                    # It ended early without dying, as at a cap: the others finish what they have.
                    self._schedule.stop()
                continue
            except ray.exceptions.RayTaskError as error:
                raise WorkerBug(str(error)) from error
            except ray.exceptions.RayError as error:
                self._replace(member, _how_it_died(error))
                continue
            if isinstance(message, BaseException):
                raise message
            if isinstance(message, Loaded):
                member.loading, member.in_flight = None, message.in_flight
                self._agree(message)
            elif message[0] not in self._done:
                self._done.add(message[0])
                results.append(message)
        self._cluster.check()
        self._say_waiting()
        return results

    def _agree(self, loaded: Loaded) -> None:
        if loaded.version != __version__:
            raise RunError(
                f"node {loaded.address} has VideoPro {loaded.version}, but this command is {__version__}; "
                "install the same version on all nodes"
            )
        if self._identity is None:
            self._identity = loaded.identity
        elif loaded.identity != self._identity:
            raise RunError(
                f"the worker on node {loaded.address} loaded a different model from the others "
                f"({loaded.identity} instead of {self._identity}); use the same files on all nodes, and "
                "re-run the same command to resume"
            )

    def _replace(self, member: Member[ItemT], how: str) -> None:
        """Start another worker for one that died, and have its items done again. Raises RunError if that
        would not help."""
        self._members.remove(member)
        member.kill()
        self._deaths_in_a_row += 1
        # Once may be another program that filled the memory; twice is the model that does not fit.
        if member.loading is not None and self._deaths_in_a_row > 1:
            raise RunError(
                f"workers died twice while loading the model (the last one: {how}); check that there is "
                f"memory for a worker of {self._share}"
            )
        if self._deaths_in_a_row >= MAX_DEATHS_WITHOUT_RESULT * (len(self._members) + 1):
            raise RunError(
                f"workers died {self._deaths_in_a_row} times in a row without a new result (the last one: "
                f"{how}); see Ray's logs on its node, in /tmp/ray/session_latest/logs"
            )
        ids = [_id(item) for items in member.tasks.values() for item in items]
        if ids:
            reason = f"its worker died ({how})"
            self._schedule.crashes.add(ids, reason)
            self._record_death(ids, reason)
        for items in member.tasks.values():
            self._schedule.add([item for item in items if _id(item) not in self._done])
        if self._identity is not None:
            print(f"a worker died ({how}); starting another", file=sys.stderr)
        self._start_member()

    def _start_member(self) -> None:
        """Ask Ray for a worker with its share of a node. It starts when a node has room."""
        import ray
        from ray import cloudpickle

        host: Any = ray.remote(WorkerHost)
        actor = host.options(
            num_cpus=self._share.cpus,
            num_gpus=self._share.gpus,
            memory=self._share.memory or None,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=MOST_IN_FLIGHT + 1,
            # Decoding and memory are spread over the nodes.
            scheduling_strategy="SPREAD",
        ).remote()
        # Pickled here, so that what a node cannot import is an error of its `load`, and not Ray's own.
        make = cloudpickle.dumps(self._make)  # type: ignore[no-untyped-call]
        self._members.append(Member(actor, actor.load.remote(make, os.getcwd())))

    def _say_waiting(self) -> None:
        """Report from time to time that no worker is ready: Ray does not report why."""
        now = time.monotonic()
        if any(member.loading is None for member in self._members):
            self._waited = now
        elif now - self._waited >= _WAITING_SECONDS:
            self._waited = now
            print(
                f"waiting for the cluster at {self._cluster.address}: workers of {self._share} are loading "
                "their model, or waiting for room on a node",
                file=sys.stderr,
            )


def _how_it_died(error: Exception) -> str:
    """What an error of Ray says about a worker."""
    import ray

    text = str(error)
    if isinstance(error, ray.exceptions.OutOfMemoryError) or "running low on memory" in text:
        return "its node ran out of memory, and Ray ended it"
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return "its connection broke"
    if isinstance(error, ray.exceptions.ActorDiedError):
        return "its process or node is gone"
    return f"{type(error).__name__}: {text.strip().splitlines()[0]}"


def _id(item: Any) -> str:
    return str(item.id)
