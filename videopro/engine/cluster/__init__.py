"""Many machines on Ray: the connection to a cluster, and workers there that hold a model.

Ray is an optional dependency (extra `ray`), which is imported when a cluster is joined.
"""

from videopro.engine.cluster.connection import Cluster
from videopro.engine.cluster.hosting import MOST_IN_FLIGHT, Worker
from videopro.engine.cluster.pool import WorkerPool
from videopro.engine.cluster.settings import ENGINE, RAY, RaySettings, read_ray_settings

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
