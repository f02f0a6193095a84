"""Units of work and their progress, shared by runs, synthesis, indexing and rewards."""

from videopro.work.counter import Counter, counted
from videopro.work.progress import Progress
from videopro.work.queue import CrashRecord, Unit, lease, read_crashes, record_crash, units
from videopro.work.walk import Walk, shard

__all__ = [
    "Counter",
    "CrashRecord",
    "Progress",
    "Unit",
    "Walk",
    "counted",
    "lease",
    "read_crashes",
    "record_crash",
    "shard",
    "units",
]
