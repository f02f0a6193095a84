"""Making a run: its workers, their supervisor, and tracking."""

from videopro.runner.supervisor import Supervisor, place_workers
from videopro.runner.tracking import Tracking, check_trackers
from videopro.runner.worker import UnitAnswerer, WorkerJob, run_worker

__all__ = [
    "Supervisor",
    "Tracking",
    "UnitAnswerer",
    "WorkerJob",
    "check_trackers",
    "place_workers",
    "run_worker",
]
