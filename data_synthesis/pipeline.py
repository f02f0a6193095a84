"""The loop of a synthesis: several videos in flight, each question recorded when it is done.

It uses threads, since most of the time is spent waiting for a teacher's replies and for a backbone that
serves one batch at a time. Several commands may work on one folder: a video's questions belong to the command
that holds their lease, and the kernel releases the lease when that one dies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from videopro.backbones import Backbone, check_alive
from videopro.benchmarks import Item, Protocol
from videopro.cli import trim_heap
from videopro.data_synthesis.explore import Explorer
from videopro.engine import Unit, Walk, lease
from videopro.errors import BackboneError
from videopro.methods import make_trace
from videopro.question import Parser
from videopro.traces import Trace, TraceLog

# How often progress is shown while videos are in flight.
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class SynthesisJob:
    """What the records of a synthesis say besides what was explored."""

    run_key: str
    protocol: Protocol
    parser: Parser | None = None
    """The official one, if it is the benchmark's own."""


def explore_unit(
    items: Sequence[Item], explorer: Explorer, backbone: Backbone, job: SynthesisJob
) -> Iterator[Trace]:
    """The records of questions about one video, wherever they are kept; questions that a cap cut short are
    left out. Raises what `Explorer.explore` raises, and BackboneError where the backbone no longer serves any
    request."""
    for item, result, video in explorer.explore(items):
        if result.error is not None and result.error.type == BackboneError.__name__:
            check_alive(backbone, result.error.message)
        yield make_trace(
            item,
            result,
            video,
            run_key=job.run_key,
            protocol=job.protocol,
            parser=job.parser,
            served=backbone.versions,
        )


def run_pipeline(
    units: Sequence[Unit[Item]],
    explorer: Explorer,
    backbone: Backbone,
    log: TraceLog,
    job: SynthesisJob,
    *,
    leases: Path,
    in_flight: int,
    on_progress: Callable[[], object],
    halt: Callable[[], None],
) -> None:
    """Explore the open questions of each unit and record them, `in_flight` units at a time. Units that
    another command holds in the folder `leases` are left to it, and taken over if it dies. `on_progress` is
    called every POLL_SECONDS; on an interruption, `halt` cancels the requests that units in flight are
    waiting for.

    Returns when all are done or a cap is reached. Raises what a unit raised (RunError, BackboneError, an
    internal error) after the others in flight have ended.
    """
    walk = Walk(units)
    recording = threading.Lock()

    def open_items(unit: Unit[Item]) -> list[Item]:
        with recording:
            log.refresh()
            return [item for item in unit.items if not log.is_done(item.id)]

    def work() -> None:
        while (unit := walk.take()) is not None:
            if not open_items(unit):
                continue
            with lease(leases, unit) as mine:
                # Another command has it now; it is looked at again, in case that one dies.
                if not mine:
                    walk.put_off(unit)
                    continue
                # The log now has the records of the lease's last holder.
                items = open_items(unit)
                left = len(items)
                for trace in explore_unit(items, explorer, backbone, job) if items else ():
                    with recording:
                        log.append(trace)
                    left -= 1
            trim_heap()
            if left:
                # A cap was reached.
                walk.stop()

    running: set[Future[None]] = set()
    failure: BaseException | None = None
    with ThreadPoolExecutor(in_flight, thread_name_prefix="video") as threads:
        try:
            running = {threads.submit(work) for _ in range(in_flight)}
            while running:
                done, running = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    if (error := future.exception()) is not None:
                        # The first error is the cause; later ones may follow from it.
                        failure = failure or error
                        walk.stop()
                on_progress()
        except BaseException:
            # An interruption: units in flight end after their current step, and no new unit begins.
            walk.stop()
            halt()
            raise
    if failure is not None:
        raise failure
