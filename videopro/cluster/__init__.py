"""Many machines on Ray: the connection to a cluster, and workers there that hold a model.

Ray is an optional dependency (extra `ray`), which is imported when a cluster is joined.
"""

from videopro.cluster.connection import Cluster
from videopro.cluster.hosting import MOST_IN_FLIGHT, Worker
from videopro.cluster.pool import WorkerPool
from videopro.cluster.settings import ENGINE, RAY, RaySettings, read_ray_settings

__all__ = [
    "ENGINE",
    "MOST_IN_FLIGHT",
    "RAY",
    "Cluster",
    "RaySettings",
    "Worker",
    "WorkerPool",
    "read_ray_settings",
]
