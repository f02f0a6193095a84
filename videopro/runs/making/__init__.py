"""Making a run: its workers, their supervisor, and tracking."""

from videopro.runs.making.cluster_run import ClusterSupervisor
from videopro.runs.making.supervisor import Loader, Supervisor, place_workers
from videopro.runs.making.tracking import Tracking, check_trackers
from videopro.runs.making.worker import UnitAnswerer, WorkerJob, run_worker, units_in_flight

__all__ = [
    "ClusterSupervisor",
    "Loader",
    "Supervisor",
    "Tracking",
    "UnitAnswerer",
    "WorkerJob",
    "check_trackers",
    "place_workers",
    "run_worker",
    "units_in_flight",
]
