"""One worker: takes units from the queue, answers their questions, appends the traces.

It reports to its supervisor through a channel, and exits when the channel closes, so that no worker outlives
its supervisor. It works the same with any number of other workers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from videopro.backbones import Backbone, check_alive
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item
from videopro.benchmarks import Protocol as BenchmarkProtocol
from videopro.errors import BackboneError, VideoError
from videopro.methods import Method, MethodContext, make_trace, video_ref
from videopro.processes import trim_heap
from videopro.question import Parser
from videopro.runs import RunFolder
from videopro.traces import Failure, Result, Trace, TraceLog, VideoRef, failed_result
from videopro.video import Video
from videopro.work import CrashRecord, Unit, lease, read_crashes

# Seconds between two checks of an idle worker for work that another worker has left.
IDLE_SECONDS = 0.2


class Reporter(Protocol):
    """What a worker reports while it works."""

    def answering(self, ids: Sequence[str]) -> None:
        """The worker starts to answer these questions; empty: it is between questions."""


@dataclass(frozen=True)
class WorkerJob:
    """Everything that a worker needs besides a backbone."""

    folder: RunFolder
    run_key: str
    units: tuple[Unit[Item], ...]
    protocol: BenchmarkProtocol
    seed: int
    redo_errors: bool = False
    parser: Parser | None = None
    """The official answer parser, if it is the benchmark's own."""


def run_worker(job: WorkerJob, method: Method, backbone: Backbone, report: Reporter) -> None:
    """Answer questions until all questions of the run are done, by this worker or another.

    Raises RunError if the log cannot be written, BackboneError if the backbone no longer answers, and any
    internal error; earlier answers are in the log.
    """
    log = TraceLog(job.folder.traces, run_key=job.run_key, redo_errors=job.redo_errors)
    try:
        while True:
            log.refresh()
            pending = [unit for unit in job.units if not all(log.is_done(item.id) for item in unit.items)]
            if not pending:
                return
            worked = False
            for unit in pending:
                with lease(job.folder.leases, unit) as mine:
                    if not mine:
                        continue
                    # The log now has the answers of the lease's last holder.
                    log.refresh()
                    items = [item for item in unit.items if not log.is_done(item.id)]
                    if items:
                        crashes = read_crashes(job.folder.crashes)
                        for trace in answer_unit(items, job, method, backbone, crashes, report):
                            log.append(trace)
                        trim_heap()
                        worked = True
            if not worked:
                time.sleep(IDLE_SECONDS)
    finally:
        log.close()


def answer_unit(
    items: Sequence[Item],
    job: WorkerJob,
    method: Method,
    backbone: Backbone,
    crashes: CrashRecord,
    report: Reporter,
) -> Iterator[Trace]:
    """Answer questions about one video, yielding each trace as soon as it is ready. Raises BackboneError if
    the backbone no longer answers.

    Questions that were in flight when a worker died are answered alone, or are recorded as failed if they are
    quarantined.
    """
    groups: list[list[Item]] = [[item for item in items if not crashes.must_run_alone(item.id)]]
    for item in items:
        if crashes.is_quarantined(item.id):
            yield died_trace(item, crashes.reasons[item.id], job)
        elif crashes.must_run_alone(item.id):
            groups.append([item])
    for group in groups:
        if group:
            report.answering([item.id for item in group])
            for item, result, video in _results(group, job, method, backbone):
                if result.error is not None and result.error.type == BackboneError.__name__:
                    check_alive(backbone, result.error.message)
                yield _trace(item, result, video, job)
            report.answering([])


def died_trace(item: Item, reason: str, job: WorkerJob) -> Trace:
    """The trace of a question that is given up, because workers died on it; `reason`: the last death's."""
    died = Failure("WorkerDied", f"{reason}, as did earlier workers on this question")
    return _trace(item, Result(error=died), video_ref(item), job)


def _trace(item: Item, result: Result, video: VideoRef, job: WorkerJob) -> Trace:
    return make_trace(item, result, video, run_key=job.run_key, protocol=job.protocol, parser=job.parser)


def _results(
    items: list[Item], job: WorkerJob, method: Method, backbone: Backbone
) -> Iterator[tuple[Item, Result, VideoRef]]:
    meter = Meter()
    try:
        with meter.stage("open"):
            video = Video.open(items[0].video)
    except VideoError as error:
        for item in items:
            yield item, failed_result(error), video_ref(item)
        return
    reference = video_ref(items[0], video)
    context = MethodContext(video, backbone, job.protocol, meter=meter, seed=job.seed)
    for item, result in method.run_video(items, context):
        yield item, replace(result, notes=(*video.notes, *result.notes)), reference
