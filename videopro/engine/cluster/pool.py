"""A pool of workers on a Ray cluster: hands out units of work, collects the results, and replaces workers
that die.

The pool runs in one process, the command's, which alone writes what is kept. A worker is an actor with a
share of a node's CPUs, GPUs and memory (`hosting.WorkerHost`). Units of a worker that died are handed out
again, by the rules of `schedule.Schedule`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from videopro import __version__
from videopro.engine.cluster.connection import Cluster
from videopro.engine.cluster.hosting import Loaded, Worker
from videopro.engine.cluster.members import Member, start_member
from videopro.engine.cluster.schedule import Schedule, Task
from videopro.engine.cluster.settings import RaySettings, Share
from videopro.engine.queue import CrashRecord, Unit, share_of_units
from videopro.errors import RunError

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

# The work stops after this many consecutive deaths per worker without a new result.
MAX_DEATHS_WITHOUT_RESULT = 6
# Short enough that results are on the disk at once, and long enough to cost nothing.
_TICK_SECONDS = 0.2
# How long the state of a worker may stay unknown after its connection broke. Ray declares a node dead after
# about 15 s.
_UNKNOWN_SECONDS = 40.0
_WAITING_SECONDS = 30.0


class WorkerPool(Generic[ItemT, ResultT]):
    """Workers made by `make` on the nodes of a cluster; within a `with` block, which ends them all.

    `make` must be picklable. `most`: more workers have nothing to do. Call `start`
    first, then `run`.
    """

    def __init__(
        self,
        cluster: Cluster,
        make: Callable[[], Worker[Any, ItemT, ResultT]],
        settings: RaySettings,
        *,
        most: int,
    ) -> None:
        self._cluster = cluster
        self._make = make
        self._settings = settings
        self._most = max(1, most)
        self._members: list[Member[ItemT]] = []
        self._identity: dict[str, object] | None = None
        self._share = Share(1.0, 0.0, 0)
        self._deaths_in_a_row = 0
        self._began = self._waited = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            member.kill()

    def start(self) -> dict[str, object]:
        """Start the workers, and wait for the first one to load its model. Returns its identity.

        Raises ConfigError for shares that no node has, what a worker raised while it loaded, and RunError if
        workers die or the cluster does.
        """
        nodes = list(self._cluster.nodes().values())
        self._share = self._settings.share(nodes)
        count = min(self._settings.count(self._share, nodes), self._most)
        nothing: Schedule[ItemT] = Schedule((), CrashRecord.empty())
        for _ in range(count):
            self._start_member()
        while self._identity is None:
            self._listen(nothing, set())
        return self._identity

    def run(
        self, units: Sequence[Unit[Any]], job: object, crashes: CrashRecord, died: Callable[..., None]
    ) -> Iterator[tuple[list[tuple[str, ResultT]], list[tuple[ItemT, str]]]]:
        """Do the units. Yields a few times a second the new results by their items' ids, and the items that
        were given up, because workers died on them twice, with the reason.

        `job` goes to every call of `Worker.work`; `died(ids, reason)` records a worker's death. Raises what a
        worker raised, and RunError if workers keep dying or the cluster is gone.
        """
        import ray

        schedule: Schedule[ItemT] = Schedule(units, crashes, died)
        done: set[str] = set()
        shared_job = ray.put(job)
        while True:
            given_up = schedule.take_quarantined()
            done.update(str(item.id) for item, _ in given_up)  # type: ignore[attr-defined]
            if given_up:
                yield [], given_up
            self._hand_out(schedule, shared_job)
            if schedule.is_empty() and not any(member.tasks for member in self._members):
                return
            results = self._listen(schedule, done)
            if results:
                self._deaths_in_a_row = 0
            yield results, []

    # ---- handing out ---------------------------------------------------------------------------------------

    def _hand_out(self, schedule: Schedule[ItemT], job: Any) -> None:
        ready = sorted((m for m in self._members if m.is_ready), key=lambda m: len(m.tasks))
        if schedule.wants_idle_worker() and not any(m.is_reserved for m in ready) and ready:
            ready[0].is_reserved = True
        shared: list[Member[ItemT]] = []
        for member in ready:
            if member.is_reserved:
                if not member.tasks:
                    task = schedule.take_apart()
                    if task is None:
                        member.is_reserved = False
                    else:
                        member.give(task, job)
                if member.is_reserved:
                    continue
            shared.append(member)
        # In turn, and no more than a worker's share, which one that is still loading gets too.
        most = share_of_units(len(schedule) + sum(len(m.tasks) for m in self._members), len(self._members))
        while open_members := [m for m in shared if len(m.tasks) < min(m.in_flight, most)]:
            task = schedule.take()
            if task is None:
                return
            min(open_members, key=lambda m: len(m.tasks)).give(task, job)

    # ---- listening -----------------------------------------------------------------------------------------

    def _listen(self, schedule: Schedule[ItemT], done: set[str]) -> list[tuple[str, ResultT]]:
        """Wait briefly for what the workers tell. Returns new results, and adds their ids to `done`."""
        import ray

        waiting = {ref: member for member in self._members for ref in member.pending}
        results: list[tuple[str, ResultT]] = []
        if waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_TICK_SECONDS)
            # The first call returns as soon as one result is there; the second takes all others that are
            # there too.
            if ready:
                ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        else:
            time.sleep(_TICK_SECONDS)
            ready = []
        for ref in ready:
            member = waiting[ref]
            if member in self._members:
                message = member.read(ref)
                if isinstance(message, Loaded):
                    self._agree(message, member)
                elif isinstance(message, tuple):
                    name, _ = message
                    if name not in done:
                        done.add(name)
                        results.append(message)
                elif isinstance(message, Task) and any(name not in done for name in message.ids):
                    # A worker ended early without dying, as at a cap: the others finish what they have.
                    schedule.stop()
        self._replace_dead(schedule, done)
        self._cluster.check()
        self._say_waiting()
        return results

    def _agree(self, loaded: Loaded, member: Member[ItemT]) -> None:
        if loaded.version != __version__:
            raise RunError(
                f"node {member.address} has VideoPro {loaded.version}, and this command is {__version__}; "
                "install the same version on all nodes"
            )
        if self._identity is None:
            self._identity = loaded.identity
        elif loaded.identity != self._identity:
            raise RunError(
                f"the worker on node {member.address} loaded a different model from the others "
                f"({loaded.identity} instead of {self._identity}); give all nodes the same files, and re-run "
                "the same command to resume"
            )

    def _replace_dead(self, schedule: Schedule[ItemT], done: set[str]) -> None:
        nodes: dict[str, dict[str, float]] | None = None
        for member in [m for m in self._members if m.broken is not None]:
            nodes = nodes if nodes is not None else self._cluster.nodes()
            broken = member.broken
            assert broken is not None
            is_node_lost = member.node_id != "" and member.node_id not in nodes
            if not is_node_lost and not broken.is_certain:
                # Ask the worker itself; its node may be about to be declared dead.
                if time.monotonic() - broken.since < _UNKNOWN_SECONDS and not member.probe():
                    continue
                is_node_lost = not broken.is_certain
            how = f"node {member.address} was lost" if is_node_lost else broken.how
            self._members.remove(member)
            member.kill()
            self._died(member, how, schedule, is_node_lost)
            schedule.give_back(list(member.tasks.values()), done.__contains__)
            self._start_member()

    def _died(self, member: Member[ItemT], how: str, schedule: Schedule[ItemT], is_node_lost: bool) -> None:
        """Blame the items for a worker's death. Raises RunError if starting another would not help."""
        self._deaths_in_a_row += 1
        # Once may be another program that filled the memory; twice is the model that does not fit.
        if not member.is_ready and not is_node_lost and self._deaths_in_a_row > 1:
            raise RunError(
                f"workers died twice while loading the model (the last one: {how}); is there enough memory "
                f"for a worker of {self._share}?"
            )
        if self._deaths_in_a_row >= MAX_DEATHS_WITHOUT_RESULT * max(1, len(self._members) + 1):
            raise RunError(
                f"workers died {self._deaths_in_a_row} times in a row without a new result (the last one: "
                f"{how}); see Ray's logs on its node, in /tmp/ray/session_latest/logs"
            )
        reason = f"the worker that answered it died ({how})"
        tasks = list(member.tasks.values())
        if is_node_lost:
            schedule.blame_for_node(tasks, reason)
        else:
            schedule.blame(tasks, reason)
        if self._identity is not None:
            print(f"a worker died ({how}); starting another", file=sys.stderr)

    def _start_member(self) -> None:
        self._members.append(start_member(self._make, self._share, os.getcwd()))

    def _say_waiting(self) -> None:
        """Say from time to time that no worker has a place on a node yet."""
        now = time.monotonic()
        if any(member.address for member in self._members):
            self._waited = now
        elif now - self._waited >= _WAITING_SECONDS:
            self._waited = now
            print(
                f"waiting for the cluster at {self._cluster.address}: no node has room for a worker of "
                f"{self._share} now",
                file=sys.stderr,
            )
