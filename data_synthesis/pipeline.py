"""The loop of a synthesis: several videos in flight, each question recorded when it is done.

It uses threads, since most of the time is spent waiting for a teacher's replies and for a backbone that
serves one batch at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from videopro.backbones import Backbone, check_alive
from videopro.benchmarks import Item, Protocol
from videopro.data_synthesis.explore import Explorer
from videopro.errors import BackboneError
from videopro.methods import make_trace
from videopro.processes import trim_heap
from videopro.question import Parser
from videopro.traces import TraceLog
from videopro.work import Unit

# How often progress is shown while videos are in flight.
POLL_SECONDS = 0.2


def run_pipeline(
    units: Sequence[Unit[Item]],
    explorer: Explorer,
    backbone: Backbone,
    log: TraceLog,
    *,
    run_key: str,
    protocol: Protocol,
    parser: Parser | None = None,
    in_flight: int,
    shown: Callable[[], object],
    halt: Callable[[], None],
) -> None:
    """Explore the open questions of each unit and record them, `in_flight` units at a time. `shown` is called
    every POLL_SECONDS; on an interruption, `halt` cancels the requests that units in flight are waiting for.
    `parser`: the official one, if it is the benchmark's own.

    Returns when all are done or a cap is reached. Raises what a unit raised (RunError, BackboneError where
    the backbone no longer serves any request, an internal error) after the others in flight have ended.
    """
    writing = threading.Lock()
    stop = threading.Event()

    def explore_unit(unit: Unit[Item]) -> bool:
        """Whether every question of the unit was recorded."""
        with writing:
            items = [item for item in unit.items if not log.is_done(item.id)]
        if stop.is_set() or not items:
            return not items
        recorded = 0
        for item, result, video in explorer.explore(items):
            if result.error is not None and result.error.type == BackboneError.__name__:
                check_alive(backbone, result.error.message)
            with writing:
                log.append(make_trace(item, result, video, run_key=run_key, protocol=protocol, parser=parser))
            recorded += 1
        trim_heap()
        return recorded == len(items)

    waiting = list(reversed(units))
    running: set[Future[bool]] = set()
    failure: BaseException | None = None
    with ThreadPoolExecutor(in_flight, thread_name_prefix="video") as threads:
        try:
            while running or (waiting and not stop.is_set()):
                while waiting and len(running) < in_flight and not stop.is_set():
                    running.add(threads.submit(explore_unit, waiting.pop()))
                done, running = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    try:
                        complete = future.result()
                    except Exception as error:
                        failure, complete = failure or error, False
                    if not complete:
                        stop.set()
                shown()
        except BaseException:
            # An interruption: units in flight end after their current step, and no new unit begins.
            stop.set()
            halt()
            raise
    if failure is not None:
        raise failure
