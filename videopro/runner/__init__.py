"""Making a run: its workers, their supervisor, and tracking."""

from videopro.runner.cluster_run import ClusterSupervisor
from videopro.runner.supervisor import Supervisor, place_workers
from videopro.runner.tracking import Tracking, check_trackers
from videopro.runner.worker import WorkerJob, run_worker

__all__ = [
    "ClusterSupervisor",
    "Supervisor",
    "Tracking",
    "WorkerJob",
    "check_trackers",
    "place_workers",
    "run_worker",
]
