"""Making a run: its workers, their supervisor, and tracking."""

from videopro.runner.cluster_run import ClusterSupervisor
from videopro.runner.supervisor import Supervisor, place_workers
from videopro.runner.tracking import Tracking, check_trackers
from videopro.runner.worker import UnitAnswerer, WorkerJob, run_worker, units_in_flight

__all__ = [
    "ClusterSupervisor",
    "Supervisor",
    "Tracking",
    "UnitAnswerer",
    "WorkerJob",
    "check_trackers",
    "place_workers",
    "run_worker",
    "units_in_flight",
]
