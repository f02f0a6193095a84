"""Units of work and their progress, shared by runs, synthesis, indexing and rewards."""

from videopro.work.clock import SharedClock, Stopwatch
from videopro.work.counter import Counter, counted
from videopro.work.exception_watch import (
    ExceptionWatch,
    Streaks,
    keep_tracebacks,
    traceback_file,
)
from videopro.work.in_flight import InFlight, UnitInFlight
from videopro.work.progress import Progress
from videopro.work.queue import (
    CrashRecord,
    Unit,
    lease,
    read_crashes,
    record_crash,
    share_of_units,
    units,
)
from videopro.work.walk import Walk, shard

__all__ = [
    "Counter",
    "CrashRecord",
    "ExceptionWatch",
    "InFlight",
    "Progress",
    "SharedClock",
    "Stopwatch",
    "Streaks",
    "Unit",
    "UnitInFlight",
    "Walk",
    "counted",
    "keep_tracebacks",
    "lease",
    "read_crashes",
    "record_crash",
    "shard",
    "share_of_units",
    "traceback_file",
    "units",
]
