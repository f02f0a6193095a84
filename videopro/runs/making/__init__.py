"""Making a run: its workers, their supervisor, and tracking."""

from videopro.runs.making.cluster_run import ClusterSupervisor as ClusterSupervisor
from videopro.runs.making.supervisor import Loader as Loader
from videopro.runs.making.supervisor import Supervisor as Supervisor
from videopro.runs.making.supervisor import place_workers as place_workers
from videopro.runs.making.tracking import Tracking as Tracking
from videopro.runs.making.tracking import check_trackers as check_trackers
from videopro.runs.making.worker import UnitAnswerer as UnitAnswerer
from videopro.runs.making.worker import WorkerJob as WorkerJob
from videopro.runs.making.worker import run_worker as run_worker
from videopro.runs.making.worker import units_in_flight as units_in_flight
