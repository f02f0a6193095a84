"""Units of work, their queue and what is in flight, shared by runs, synthesis, indexing and rewards."""

from videopro.engine.in_flight import InFlight as InFlight
from videopro.engine.in_flight import UnitInFlight as UnitInFlight
from videopro.engine.progress import ExceptionWatch as ExceptionWatch
from videopro.engine.progress import Progress as Progress
from videopro.engine.progress import keep_tracebacks as keep_tracebacks
from videopro.engine.progress import traceback_file as traceback_file
from videopro.engine.queue import CrashRecord as CrashRecord
from videopro.engine.queue import Unit as Unit
from videopro.engine.queue import Walk as Walk
from videopro.engine.queue import as_told as as_told
from videopro.engine.queue import lease as lease
from videopro.engine.queue import read_crashes as read_crashes
from videopro.engine.queue import record_crash as record_crash
from videopro.engine.queue import shard as shard
from videopro.engine.queue import share_of_units as share_of_units
from videopro.engine.queue import units as units
from videopro.engine.queue import worker_died as worker_died
