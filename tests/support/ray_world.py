"""A Ray cluster of several nodes on this machine, and commands that run on it, for tests (marker `ray`)."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_OBJECT_STORE = 80 * 2**20


class TestCluster:
    """Starts with a head that has room for no worker."""

    __test__ = False

    def __init__(self, **environment: str) -> None:
        from ray.cluster_utils import Cluster

        # Short, because of the sockets in it.
        self._folder = tempfile.mkdtemp(prefix="vpr-", dir="/tmp")
        self._environment = {
            "RAY_TMPDIR": self._folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            # By default, workers give way to everything else on the machine.
            "RAY_worker_niceness": "0",
            **environment,
        }
        os.environ.update(self._environment)
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": _OBJECT_STORE},
        )
        self.address: str = self._cluster.address
        self._nodes: list[Any] = []

    def add_nodes(self, count: int, cpus: int = 1) -> None:
        """More nodes, with room for a worker on each CPU."""
        for _ in range(count):
            node = self._cluster.add_node(num_cpus=cpus, object_store_memory=_OBJECT_STORE)
            self._nodes.append(node)

    def kill_node(self) -> None:
        """Kill the first node's raylet and with it, as when a machine is gone, all its processes."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def kill_head(self) -> None:
        """Kill what the whole cluster hangs on."""
        self._cluster.head_node.kill_gcs_server(check_alive=False)

    def workers(self) -> list[int]:
        """Processes of this cluster's workers that hold a model."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if command.startswith(b"ray::WorkerHost") and self._folder.encode() in environment:
                found.append(int(folder.name))
        return found

    def close(self) -> None:
        """End all processes of the cluster, and remove its files."""
        self._cluster.shutdown()
        for name in self._environment:
            os.environ.pop(name, None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, module: str, *words: str, **environment: str) -> subprocess.Popen[str]:
        """A command on this cluster, in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", module, *words, "--engine", "ray"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAY_ADDRESS": self.address, **environment},
            start_new_session=True,
        )


@contextmanager
def cluster(nodes: int = 2, **environment: str) -> Iterator[TestCluster]:
    """A cluster of a head and so many nodes with one CPU each."""
    terminated = signal.getsignal(signal.SIGTERM)
    made = TestCluster(**environment)
    try:
        made.add_nodes(nodes)
        # Every node that starts here sets Ray's handler, which would stay in the test's process.
        signal.signal(signal.SIGTERM, terminated)
        yield made
    finally:
        made.close()


def kill(process: subprocess.Popen[str]) -> None:
    """As the kernel's out-of-memory killer or a scheduler does: without a last word."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
