"""One worker of a pool, as the pool sees it: its actor, what it was given, and what is known of its death."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from videopro.engine.cluster.hosting import MOST_IN_FLIGHT, Loaded, Worker, WorkerHost
from videopro.engine.cluster.schedule import Task
from videopro.engine.cluster.settings import Share

ItemT = TypeVar("ItemT")


@dataclass
class Broken:
    """A worker whose calls failed. `is_certain`: whether it is known to be dead, or only out of reach."""

    how: str
    is_certain: bool
    since: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class Member(Generic[ItemT]):
    """A worker of the pool."""

    actor: Any
    pending: list[Any]
    """Calls that have not ended: its node, its loading, a stream of results for each task."""
    tasks: dict[Any, Task[ItemT]] = field(default_factory=dict)
    """What it works on, by the stream of results."""
    node_id: str = ""
    address: str = ""
    """Its node; empty until it has a place on one."""
    is_ready: bool = False
    in_flight: int = 1
    """How many tasks it has at a time."""
    is_reserved: bool = False
    """Whether it is kept for items that must run apart from others."""
    broken: Broken | None = None
    _probe: Any = None

    def give(self, task: Task[ItemT], job: Any) -> None:
        """Let it work on a task."""
        stream = self.actor.work.options(num_returns="streaming").remote(job, task.items)
        self.tasks[stream] = task
        self.pending.append(stream)

    def read(self, ref: Any) -> Loaded | tuple[str, Any] | Task[ItemT] | None:
        """What a finished call, or the next element of a stream, says: the loaded model, the id and the
        result of an item, or a task that has ended. Raises what the worker raised; if it died, `broken` is
        set."""
        import ray

        if self.broken is not None:
            return None
        is_stream = ref in self.tasks
        try:
            message: Any = ray.get(next(ref) if is_stream else ref)
        except StopIteration:
            self.pending.remove(ref)
            return self.tasks.pop(ref)
        except ray.exceptions.RayError as error:
            self.broken = _broken(error)
            self.pending.clear()
            return None
        if isinstance(message, BaseException):
            raise message
        if not is_stream:
            self.pending.remove(ref)
        if isinstance(message, Loaded):
            self.is_ready, self.in_flight = True, message.in_flight
        elif not is_stream:
            self.node_id, self.address = message
            return None
        return cast("Loaded | tuple[str, Any]", message)

    def probe(self) -> bool:
        """Whether it is known by now what happened to a worker that was out of reach."""
        import ray

        if self._probe is None:
            self._probe = self.actor.node.remote()
        if not ray.wait([self._probe], timeout=0)[0]:
            return False
        try:
            ray.get(self._probe)
        except ray.exceptions.RayError as error:
            self._probe, death = None, _broken(error)
            if death.is_certain and self.broken is not None:
                self.broken = Broken(death.how, True, self.broken.since)
            return death.is_certain
        # It lives, but what it was working on does not reach us any more.
        return True

    def kill(self) -> None:
        """End its process."""
        import ray

        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(self.actor, no_restart=True)


def start_member(make: Callable[[], Worker[Any, Any, Any]], share: Share, folder: str) -> Member[Any]:
    """Ask Ray for a worker with this share of a node. It starts when a node has room."""
    import ray

    host: Any = ray.remote(WorkerHost)
    actor = host.options(
        num_cpus=share.cpus,
        num_gpus=share.gpus,
        memory=share.memory or None,
        # Ray must neither restart a worker nor repeat its task: the pool decides whom a death blames.
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=MOST_IN_FLIGHT + 1,
        # Decoding and memory are spread over the nodes.
        scheduling_strategy="SPREAD",
    ).remote()
    return Member(actor, [actor.node.remote(), actor.load.remote(make, folder)])


def _broken(error: Exception) -> Broken:
    """What an error of Ray says about a worker."""
    import ray

    text = str(error)
    if isinstance(error, ray.exceptions.OutOfMemoryError) or "running low on memory" in text:
        return Broken("its node ran out of memory, and Ray ended it", True)
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return Broken("its connection broke", False)
    if isinstance(error, ray.exceptions.ActorDiedError):
        return Broken("its process ended unexpectedly", True)
    return Broken(f"{type(error).__name__}: {text.strip().splitlines()[0]}", True)
