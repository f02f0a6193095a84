"""The connection to a Ray cluster: joined at RAY_ADDRESS, watched, and left.

Ray's own driver ends its process a minute after the cluster's head is gone. `Cluster.check` raises earlier,
so that the command can say so and end as any other.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from videopro.cli import needs_extra
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
        """How often in a row nothing listened at the address."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ours:
            # Without its head, Ray waits for it here. With it, the process must not end before Ray has left.
            leaving = threading.Thread(target=self._ray.shutdown, daemon=True)
            leaving.start()
            leaving.join(_LEAVE_DEAD_SECONDS if self._misses >= _MISSES else _LEAVE_SECONDS)

    def check(self) -> None:
        """Raise RunError if the cluster's head has not answered for a while. To be called all the time: it
        looks every few seconds."""
        if time.monotonic() - self._looked >= _WATCH_SECONDS:
            host, _, port = self.address.rpartition(":")
            self._misses = 0 if _answers(host, port, _WATCH_SECONDS) else self._misses + 1
            self._looked = time.monotonic()
        if self._misses >= _MISSES:
            raise RunError(
                f"the Ray cluster at {self.address} no longer answers; finished work is saved. Start the "
                "cluster again, and re-run the same command to resume"
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
                f"RAY_ADDRESS {address}: a run needs a machine of the cluster; submit the command there with "
                "`ray job submit`, or give HOST:PORT of the head"
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
    where = f"no Ray cluster answers at {address}" if address else "no Ray cluster could be joined or started"
    return (
        f"{where} ({reason}); start one with `ray start --head`, set RAY_ADDRESS to its HOST:PORT, or unset "
        "it to use this machine alone"
    )
