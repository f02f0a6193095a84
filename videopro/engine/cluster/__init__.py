"""Many machines on Ray: the connection to a cluster, and workers there that hold a model.

Ray is an optional dependency (extra `ray`), which is imported when a cluster is joined.
"""

from videopro.engine.cluster.connection import ENGINE as ENGINE
from videopro.engine.cluster.connection import RAY as RAY
from videopro.engine.cluster.connection import Cluster as Cluster
from videopro.engine.cluster.connection import RaySettings as RaySettings
from videopro.engine.cluster.connection import read_ray_settings as read_ray_settings
from videopro.engine.cluster.pool import MOST_IN_FLIGHT as MOST_IN_FLIGHT
from videopro.engine.cluster.pool import WorkerPool as WorkerPool
