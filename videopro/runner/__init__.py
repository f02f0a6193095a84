"""What carries a run: its folder, the queue of work, the workers and their supervisor, the summary."""

from videopro.runner.supervisor import Supervisor, place_workers
from videopro.runner.tracking import Tracking, check_trackers
from videopro.runner.worker import WorkerJob, run_worker

__all__ = ["Supervisor", "Tracking", "WorkerJob", "check_trackers", "place_workers", "run_worker"]
