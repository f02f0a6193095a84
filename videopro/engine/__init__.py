"""Units of work, their queue and what is in flight, shared by runs, synthesis, indexing and rewards."""

from videopro.engine.exception_watch import ExceptionWatch, keep_tracebacks, traceback_file
from videopro.engine.in_flight import InFlight
from videopro.engine.progress import Progress
from videopro.engine.queue import CrashRecord, Unit, lease, read_crashes, record_crash, share_of_units, units
from videopro.engine.walk import Walk, shard

__all__ = [
    "CrashRecord",
    "ExceptionWatch",
    "InFlight",
    "Progress",
    "Unit",
    "Walk",
    "keep_tracebacks",
    "lease",
    "read_crashes",
    "record_crash",
    "shard",
    "share_of_units",
    "traceback_file",
    "units",
]
