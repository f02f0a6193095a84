"""One worker: takes units from the queue, answers their questions, appends the traces.

It answers several units at a time, each in its own thread, with one backbone and one set of models: a video
is decoded while the model answers about another, and an engine gets the requests of all units. The worker
reports to its supervisor through a channel, and exits when the channel closes, so that it never outlives its
supervisor. Any number of other workers can run at the same time.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Protocol, Self, TypeVar

from videopro.backbones import Backbone, check_alive
from videopro.backbones.wrappers import Meter, share_backbone
from videopro.benchmarks import Item
from videopro.benchmarks import Protocol as BenchmarkProtocol
from videopro.cli import trim_heap
from videopro.engine import (
    CrashRecord,
    InFlight,
    Unit,
    UnitInFlight,
    lease,
    read_crashes,
    record_crash,
    share_of_units,
    worker_died,
)
from videopro.errors import (
    QUESTION_ERRORS,
    BackboneError,
    MachineError,
    NativeError,
    VideoProError,
    is_full,
    is_machines,
    machine_error,
    unexpected_as,
)
from videopro.methods import Method, MethodContext, answer_each, make_trace, video_ref, with_controls
from videopro.question import Parser
from videopro.runs.folder import RunFolder
from videopro.traces import (
    NO_REDO,
    REDONE,
    Redo,
    Result,
    SharedClock,
    Trace,
    TraceLog,
    VideoRef,
    failed_result,
)
from videopro.video import Video

# Seconds between two checks of an idle worker for work that another worker has left.
IDLE_SECONDS = 0.2
# Videos in flight: with a server, enough requests for an engine that serves an 8B; with a model in this
# process, whose memory they take, enough to decode ahead of it and to fill its batches.
SERVER_IN_FLIGHT = 32
LOCAL_IN_FLIGHT = 4


class Reporter(Protocol):
    """What a worker reports while it works."""

    def answering(self, ids: Sequence[str]) -> None:
        """Report the questions that are now being answered; empty: none."""

    def doing(self, counts: Mapping[str, int]) -> None:
        """Report the current activities, each with its number of videos."""


@dataclass(frozen=True)
class WorkerJob:
    """Everything that a worker needs, except a backbone."""

    folder: RunFolder
    run_key: str
    units: tuple[Unit[Item], ...]
    protocol: BenchmarkProtocol
    seed: int
    redo: Redo = NO_REDO
    parser: Parser | None = None
    """The official answer parser, if the benchmark has its own."""
    in_flight: int | None = None
    """Units that a worker answers at a time; None: by the backbone (`units_in_flight`)."""
    workers: int = 1
    """The total number of workers; each takes its share of the remaining units."""
    nearest_intact: float = 0.0
    """As in `Video.open`."""
    controls: bool = False
    """As in `MethodContext`."""


def units_in_flight(requested: int | None, backbone: Backbone) -> int:
    """How many units a worker with this backbone answers at a time: `requested`, if set."""
    if requested is not None:
        return requested
    return SERVER_IN_FLIGHT if backbone.is_concurrent else LOCAL_IN_FLIGHT


class UnitAnswerer:
    """Answers units with one backbone and one method, any number at a time. A process holds one, which all
    its threads use. Thread-safe.

    The backbone gets the requests of all units, and a local model gets them in batches (`share_backbone`).
    `in_flight` gets the questions of all units.
    """

    def __init__(self, job: WorkerJob, method: Method, backbone: Backbone, in_flight: InFlight) -> None:
        self._job = job
        self._method = method
        self._backbone = share_backbone(backbone)
        self._in_flight = in_flight
        self._clock = SharedClock()

    def answer(self, items: Sequence[Item], crashes: CrashRecord) -> Iterator[Trace]:
        """The traces of questions about one video, as `answer_unit` yields them. Their times are shares of
        the wall time, so that they add up to the worker's time. Raises like `answer_unit`."""
        with self._in_flight.unit(crashes.must_run_apart) as unit, self._clock.running() as watch:
            for trace in answer_unit(items, self._job, self._method, self._backbone, crashes, unit):
                yield _with_times_scaled(trace, self._clock.factor(watch, trace.cost.seconds))


def run_worker(job: WorkerJob, method: Method, backbone: Backbone, report: Reporter) -> None:
    """Answer questions until all questions of the run are done, by this worker or another.

    Raises RunError if the log cannot be written, BackboneError if the backbone no longer answers, and
    MachineError; earlier answers are in the log.
    """
    # What is loaded stays until the end, and the collector would look through all of it again and again.
    gc.freeze()
    answerer = UnitAnswerer(job, method, backbone, InFlight(report.answering, report.doing))
    most = units_in_flight(job.in_flight, backbone)
    with _Units(job, answerer, most) as units:
        while True:
            pending = units.pending()
            if not pending:
                return
            # Fewer towards the end, so that each worker gets its share of the last units.
            units.most = min(most, share_of_units(len(pending), job.workers))
            begun = [units.take(unit) for unit in pending]
            if any(begun) or units.wait() or len(units.pending()) < len(pending):
                continue
            time.sleep(IDLE_SECONDS)  # others answer what is left


class _Units:
    """The units of a run, some of which this process answers at a time. Leaving the `with` block does not
    wait for units in flight, and writes nothing more of them."""

    def __init__(self, job: WorkerJob, answerer: UnitAnswerer, in_flight: int) -> None:
        self._job = job
        self._answerer = answerer
        self.most = in_flight
        """Units in flight at a time, at most as many as at first."""
        self._log = TraceLog(job.folder.traces, run_key=job.run_key, redo=job.redo)
        self._log_lock = threading.Lock()
        self._is_open = True
        self._threads = ThreadPoolExecutor(in_flight, "unit")
        self._running: dict[Future[None], str] = {}
        """The keys of the units in flight."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._log_lock:
            self._is_open = False
            self._log.close()
        self._threads.shutdown(wait=False)

    def pending(self) -> list[Unit[Item]]:
        """The units with questions that are not done yet."""
        with self._log_lock:
            self._log.refresh()
            is_done = self._log.is_done
            return [unit for unit in self._job.units if not all(is_done(item.id) for item in unit.items)]

    def take(self, unit: Unit[Item]) -> bool:
        """Start to answer a unit when there is room, unless another worker answers it. If a unit in flight
        has failed, raises its exception."""
        while len(self._running) >= self.most:
            self.wait()
        if unit.key in self._running.values():
            return False
        with ExitStack() as stack:
            if not stack.enter_context(lease(self._job.folder.leases, unit)):
                return False
            # Of the lease's last holder the log now has all answers.
            items = self._left(unit)
            if not items:
                return False
            crashes = read_crashes(self._job.folder.crashes)
            future = self._threads.submit(self._answer, items, crashes, stack.pop_all())
            self._running[future] = unit.key
        return True

    def wait(self) -> bool:
        """Wait until a unit in flight is done; False if there is none. If it failed, raises its exception."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            del self._running[future]
            future.result()
        return bool(done)

    def _left(self, unit: Unit[Item]) -> list[Item]:
        with self._log_lock:
            self._log.refresh()
            return [item for item in unit.items if not self._log.is_done(item.id)]

    def _answer(self, items: Sequence[Item], crashes: CrashRecord, leased: ExitStack) -> None:
        with leased:
            for trace in self._answerer.answer(items, crashes):
                with self._log_lock:
                    if not self._is_open:
                        return
                    self._log.append(trace)
            trim_heap()


def answer_unit(
    items: Sequence[Item],
    job: WorkerJob,
    method: Method,
    backbone: Backbone,
    crashes: CrashRecord,
    report: UnitInFlight,
) -> Iterator[Trace]:
    """Answer questions about one video, yielding each trace as soon as it is ready. Raises BackboneError if
    the backbone no longer answers, and MachineError. Several threads can do so at a time, each with its own
    `report` (`UnitAnswerer`).

    Questions that were in flight when a worker died are answered separately or alone, or recorded as failed
    if they are quarantined.
    """
    groups: list[list[Item]] = [[], []]
    for item in items:
        if not crashes.must_run_alone(item.id):
            groups[crashes.must_run_apart(item.id)].append(item)
    for item in items:
        if crashes.is_quarantined(item.id):
            yield died_trace(item, crashes.reasons[item.id], job)
        elif crashes.must_run_alone(item.id):
            groups.append([item])
    for group in groups:
        if group:
            ids = [item.id for item in group]
            report.answering(ids)
            answered = _results(group, job, method, backbone, report.doing)
            for item, result, video in _naming_machine(answered, ids):
                # One refused request is the question's; a backbone that serves no request ends the run.
                if result.error is not None and result.error.type == BackboneError.__name__:
                    check_alive(backbone, result.error.message)
                # An error of the machine is blamed on the questions without a result.
                ids.remove(item.id)
                yield _trace(item, result, video, job, backbone.versions)
            report.answering([])


ResultT = TypeVar("ResultT")


def _naming_machine(results: Iterator[ResultT], ids: Sequence[str]) -> Iterator[ResultT]:
    """The results. Raises MachineError, with the questions that are left, for an error of the machine that
    may be theirs; a full disk is nobody's."""
    try:
        yield from results
    except VideoProError:
        raise
    except Exception as error:
        if not is_machines(error) or (isinstance(error, OSError) and is_full(error)):
            raise
        raise machine_error(error, ids) from error


def blame_machine(error: BaseException, folder: RunFolder) -> None:
    """Record the questions at which the machine failed: the command that resumes answers them separately, and
    gives up a question at which it keeps failing alone."""
    if isinstance(error, MachineError) and error.ids:
        record_crash(folder.crashes, error.ids, f"the worker that answered it failed ({error.failure})")


def died_trace(item: Item, reason: str, job: WorkerJob) -> Trace:
    """The trace of a question that is given up because workers died on it; `reason`: of the last death."""
    return _trace(item, Result(error=worker_died(reason)), video_ref(item), job, {})


def _with_times_scaled(trace: Trace, factor: float) -> Trace:
    rounds = [
        replace(
            each,
            planning=each.planning.scaled(factor),
            execution=each.execution
            and replace(
                each.execution,
                cost=each.execution.cost.scaled(factor),
                steps=tuple(replace(step, cost=step.cost.scaled(factor)) for step in each.execution.steps),
            ),
        )
        for each in trace.rounds
    ]
    return replace(trace, cost=trace.cost.scaled(factor), rounds=tuple(rounds))


def _trace(item: Item, result: Result, video: VideoRef, job: WorkerJob, served: Mapping[str, str]) -> Trace:
    key, protocol, parser = job.run_key, job.protocol, job.parser
    return make_trace(item, result, video, run_key=key, protocol=protocol, parser=parser, served=served)


def _results(
    items: list[Item], job: WorkerJob, method: Method, backbone: Backbone, doing: Callable[[str], None]
) -> Iterator[tuple[Item, Result, VideoRef]]:
    meter = Meter()
    doing("opening")
    try:
        with unexpected_as(NativeError), meter.stage("open"):
            video = Video.open(items[0].video, nearest_intact=job.nearest_intact)
    except QUESTION_ERRORS as error:
        for item in items:
            yield item, failed_result(error), video_ref(item)
        return
    reference = video_ref(items[0], video)
    meters = chain([meter], iter(Meter, None))
    texts: dict[Path | None, tuple[str | None, str]] = {}
    again = {question for question, *_ in job.redo.changed}

    def new_context() -> MethodContext:
        return MethodContext(
            *(video, backbone, job.protocol),
            meter=next(meters),
            seed=job.seed,
            doing=doing,
            texts=texts,
            controls=job.controls,
        )

    doing("answering")
    for item, result in answer_each(method, items, new_context):
        if job.controls:
            # With a context of its own: their calls and tokens are in no question's cost.
            result = with_controls(result, item, new_context())
        redone = (REDONE,) if item.id in again else ()
        notes = (*redone, *video.notes, *backbone.notes, *result.notes)
        file, text = texts.get(item.subtitles, (None, ""))
        yield item, replace(result, notes=notes), replace(reference, subtitles=file, text_id=text)
