"""Carrying a synthesis through: several videos in flight, each question recorded as it is done.

Threads, since what takes long is a teacher's replies and a backbone that serves one batch at a time. Knows
the explorer and the log of records; must not know teachers, rules or datasets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from data_synthesis.explore import Explorer
from videopro.backbones import Backbone
from videopro.errors import BackboneError
from videopro.freed_memory import hand_back
from videopro.runner.queue import Unit
from videopro.runner.worker import Job, check_alive, make_trace
from videopro.trace_log import TraceLog

# How often progress is shown while videos are in flight.
LOOK_SECONDS = 0.2


def work(
    units: Sequence[Unit],
    job: Job,
    explorer: Explorer,
    backbone: Backbone,
    log: TraceLog,
    *,
    in_flight: int,
    shown: Callable[[], object],
    halt: Callable[[], None],
) -> None:
    """Explore the open questions of each unit and record them, `in_flight` units at a time. `shown` is called
    again and again meanwhile; `halt` ends, on an interruption, what units in flight wait for.

    Returns when all are done or a cap let no more be done. Raises what a unit raised (RunError, BackboneError
    where the backbone serves nothing any more, a fault of ours) after the others in flight have ended.
    """
    writing = threading.Lock()
    stop = threading.Event()

    def one(unit: Unit) -> bool:
        """Whether every question of the unit was recorded."""
        with writing:
            items = [item for item in unit.items if not log.is_done(item.id)]
        if stop.is_set() or not items:
            return not items
        recorded = 0
        for item, result, video in explorer.explore(items):
            if result.error is not None and result.error.type == BackboneError.__name__:
                check_alive(backbone, result.error)
            with writing:
                log.append(make_trace(item, result, video, job))
            recorded += 1
        hand_back()
        return recorded == len(items)

    waiting = list(reversed(units))
    running: set[Future[bool]] = set()
    failure: BaseException | None = None
    with ThreadPoolExecutor(in_flight, thread_name_prefix="video") as threads:
        try:
            while running or (waiting and not stop.is_set()):
                while waiting and len(running) < in_flight and not stop.is_set():
                    running.add(threads.submit(one, waiting.pop()))
                done, running = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
                for future in done:
                    try:
                        complete = future.result()
                    except Exception as error:
                        failure, complete = failure or error, False
                    if not complete:
                        stop.set()
                shown()
        except BaseException:
            # An interruption: what is in flight ends with its present step, and nothing new begins.
            stop.set()
            halt()
            raise
    if failure is not None:
        raise failure
