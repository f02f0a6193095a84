"""The connection to a Ray cluster, joined at RAY_ADDRESS, watched, and left; and the settings of `--ray`:
what each worker needs of its node.

Ray's own driver ends its process a minute after the cluster's head is gone. `Cluster.check` raises earlier,
so that the command can say so and end as any other.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from videopro.cli import build_settings, check_extra, check_least, needs_extra, option, setting
from videopro.errors import ConfigError, RunError

_CONNECT_SECONDS = 10.0
_WATCH_SECONDS = 3.0
# So many attempts in a row without a connection: about 15 s, which a busy head survives.
_MISSES = 5
# Seconds for Ray to leave; a dead head never answers, so there is little to wait for.
_LEAVE_SECONDS, _LEAVE_DEAD_SECONDS = 60.0, 5.0


class Cluster:
    """The Ray cluster that $RAY_ADDRESS names, within a `with` block; without it, Ray is started on this
    machine for the block. A connection that this process already has is used, and kept.

    Raises ConfigError for an address of another kind, MissingExtra without Ray, and RunError if no cluster
    answers there.
    """

    def __init__(self) -> None:
        self._ray: Any = None
        self._is_ours = False
        self._misses = 0
        """The number of failed attempts in a row to reach the address."""
        self._looked = time.monotonic()
        self.address = ""
        """Host and port of the head."""

    def __enter__(self) -> Self:
        with needs_extra("ray", "--engine ray"):
            import ray
        self._ray = ray
        if not ray.is_initialized():
            self._connect(os.environ.get("RAY_ADDRESS", ""))
            self._is_ours = True
        self.address = ray.get_runtime_context().gcs_address
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_ours:
            # Without its head, Ray waits for it here. With it, the process must not end before Ray has left.
            leaving = threading.Thread(target=self._ray.shutdown, daemon=True)
            leaving.start()
            leaving.join(_LEAVE_DEAD_SECONDS if self._misses >= _MISSES else _LEAVE_SECONDS)

    def check(self) -> None:
        """Raise RunError if the cluster's head has not responded for a while. Call it often: it checks every
        few seconds."""
        if time.monotonic() - self._looked >= _WATCH_SECONDS:
            host, _, port = self.address.rpartition(":")
            self._misses = 0 if _answers(host, port, _WATCH_SECONDS) else self._misses + 1
            self._looked = time.monotonic()
        if self._misses >= _MISSES:
            raise RunError(
                f"the Ray cluster at {self.address} does not respond any more; finished work is saved. "
                "Restart the cluster, and re-run the same command to resume"
            )

    def nodes(self) -> list[dict[str, float]]:
        """The resources of each node that is alive."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def start_beside(self, cls: type[Any], *, calls: int) -> Any:
        """An actor on this process's own node that reserves nothing; `calls`: it serves so many at a time."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = self._ray.get_runtime_context().get_node_id()
        # Not soft: where this node has no room, Ray would otherwise put the actor on any other.
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0, "max_concurrency": calls, "scheduling_strategy": strategy}
        return self._ray.remote(cls).options(**options).remote()

    def _connect(self, address: str) -> None:
        import ray

        if "://" in address:
            raise ConfigError(
                f"RAY_ADDRESS {address}: runs must start on a machine of the cluster; submit the command "
                "there with `ray job submit`, or set HOST:PORT of the head"
            )
        host, _, port = address.rpartition(":")
        # Tried here first, so that a wrong address is one line of ours and not Ray's own error.
        if host and not _answers(host, port, _CONNECT_SECONDS):
            raise RunError(_dead(address, "nothing listens there"))
        # Nothing is reported about a cluster that we start, unless the user wants it.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGTERM)
        try:
            # Without an address, Ray would look for the last cluster of this machine, and wait for minutes if
            # that was killed.
            ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise RunError(_dead(address, str(error).strip().splitlines()[0])) from error
        finally:
            if is_main:
                # Ray's handler would end the command without a word.
                signal.signal(signal.SIGTERM, before)
        # Ray prints what happens to nodes and workers to stdout, which no public setting prevents. We say it
        # in one line of our own.
        ray._private.worker._worker_logs_enabled = False


def _answers(host: str, port: str, seconds: float) -> bool:
    with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), seconds):
        return True
    return False


def _dead(address: str, reason: str) -> str:
    where = (
        f"no Ray cluster responds at {address}" if address else "no Ray cluster could be joined or started"
    )
    return (
        f"{where} ({reason}); start one with `ray start --head`, set RAY_ADDRESS to its HOST:PORT, or unset "
        "it to use this machine alone"
    )


ENGINE = setting(
    "where to run: local (processes on this machine), or ray (the cluster at $RAY_ADDRESS; unset: Ray is "
    "started here for the command)"
)
RAY = setting("with --engine ray: workers, and cpus, gpus and memory (GiB) per worker, such as cpus=8 gpus=1")
_GIB = 2**30


@dataclass(frozen=True)
class Share:
    """What one worker reserves of its node: numbers of CPUs and GPUs, bytes of memory (0: not reserved)."""

    cpus: float
    gpus: float
    memory: int

    def __str__(self) -> str:
        parts = [_count(self.cpus, "CPU"), _count(self.gpus, "GPU")]
        return " and ".join([", ".join(parts), f"{self.memory / _GIB:g} GiB"] if self.memory else parts)

    def workers_on(self, node: Mapping[str, float]) -> int:
        """How many workers have room on a node with these resources, which Ray calls CPU, GPU and memory."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory)}
        # Ray counts in units of 0.0001.
        fits = [
            math.floor(node.get(name, 0.0) / amount + 1e-9) for name, amount in amounts.items() if amount > 0
        ]
        return min(fits)


@dataclass(frozen=True)
class RaySettings:
    """The settings of `--ray`."""

    workers: int | None = option(None, "workers; unset: as many as the cluster has room for")
    cpus: float | None = option(None, "CPUs per worker; unset: 1, or a node's CPUs divided by its GPUs")
    gpus: float | None = option(None, "GPUs per worker, such as 0.5; unset: 1 if the cluster has any")
    memory: float | None = option(None, "memory to reserve per worker, in GiB; unset: none")

    def __post_init__(self) -> None:
        check_least(self, 1, "workers", where="ray: ")
        if self.cpus is not None and not self.cpus > 0:
            raise ConfigError(f"ray: cpus is {self.cpus:g}; it must be above 0")
        # As Ray wants it: a share of one GPU, or whole ones.
        if self.gpus is not None and (self.gpus < 0 or (self.gpus > 1 and self.gpus != int(self.gpus))):
            raise ConfigError(
                f"ray: gpus is {self.gpus:g}; it must be 0, a share of a GPU, or a whole number"
            )
        if self.memory is not None and not self.memory > 0:
            raise ConfigError(f"ray: memory is {self.memory:g}; it must be above 0 (GiB)")

    def share(self, nodes: Sequence[Mapping[str, float]]) -> Share:
        """What a worker reserves, on a cluster with these nodes (each by Ray's names of resources)."""
        all_gpus = sum(node.get("GPU", 0.0) for node in nodes)
        gpus = self.gpus if self.gpus is not None else float(all_gpus > 0)
        cpus = self.cpus
        if cpus is None:
            # The CPUs of a GPU decode for its model. The smallest ratio fits on every node.
            ratios = [node.get("CPU", 0.0) * gpus / node["GPU"] for node in nodes if node.get("GPU", 0.0) > 0]
            cpus = max(1.0, float(math.floor(min(ratios)))) if gpus and ratios else 1.0
        return Share(cpus, gpus, round((self.memory or 0.0) * _GIB))

    def count(self, share: Share, nodes: Sequence[Mapping[str, float]]) -> int:
        """How many workers to start. Raises ConfigError if no node has room for one and no number was
        given: a cluster that grows needs one."""
        if self.workers is not None:
            return self.workers
        workers = sum(share.workers_on(node) for node in nodes)
        if not workers:
            largest = max(nodes, key=lambda node: (node.get("GPU", 0.0), node.get("CPU", 0.0)))
            raise ConfigError(
                f"ray: no node of the cluster has room for a worker of {share} (the largest has "
                f"{_count(largest.get('CPU', 0.0), 'CPU')}, {_count(largest.get('GPU', 0.0), 'GPU')} and "
                f"{largest.get('memory', 0.0) / _GIB:.0f} GiB); request smaller shares, such as --ray cpus=1 "
                "gpus=0, or --ray workers=N to wait for larger nodes"
            )
        return workers


def read_ray_settings(engine: str, mapping: Mapping[str, Any]) -> RaySettings:
    """The settings of `--ray`. Raises ConfigError for invalid ones, for settings of an engine that is not
    used, and MissingExtra if Ray is not installed."""
    if engine != "ray":
        if mapping:
            raise ConfigError("--ray: has no effect without --engine ray; add it, or leave --ray out")
        return RaySettings()
    check_extra("ray", "--engine ray", "ray")
    return build_settings(RaySettings, mapping, "ray")


def _count(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"
