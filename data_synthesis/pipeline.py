"""Explores the open questions of a synthesis and records each when it is done: in this process, or on a Ray
cluster.

Here, threads have several videos in flight, since most of the time is spent waiting for a teacher's replies
and for a backbone that serves one batch at a time. Several commands may work on one folder: a video's
questions belong to the command that holds their lease, and the kernel releases the lease when that one dies.

On a cluster, workers hold the answering model and the modules' models. This process writes the records, and
another one asks the teacher for all workers, so that caps, key and the file of replies stay here.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, check_alive, own_model
from videopro.benchmarks import Benchmark, Item, Protocol
from videopro.cli import trim_heap
from videopro.data_synthesis.explore import Explorer, SendsRequests
from videopro.data_synthesis.folder import SynthesisFolder, as_mapping
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import CapReached, Refusal, ReplyLog, Teacher
from videopro.engine import (
    ExceptionWatch,
    Progress,
    Unit,
    Walk,
    lease,
    read_crashes,
    record_crash,
    units,
    worker_died,
)
from videopro.engine.cluster import Cluster, RaySettings, WorkerPool
from videopro.errors import BackboneError, RunError, VideoProError, WorkerBug
from videopro.methods import make_trace, video_ref
from videopro.methods.planners import Planner, PlannerReply, PlanRequest, planner_needs
from videopro.modules import ModuleModels
from videopro.question import Parser
from videopro.traces import Redo, Result, Trace, TraceLog, VideoRef

MODELS_FLAG = "--{option} none"
"""How to turn off the model of a part in a synthesis."""
# How often progress is shown while videos are in flight.
POLL_SECONDS = 0.2
# On a cluster: it reads the log, and looks at every question.
_SHOW_SECONDS = 0.5


@dataclass(frozen=True)
class SynthesisJob:
    """What the records of a synthesis contain in addition to what was explored."""

    run_key: str
    protocol: Protocol
    parser: Parser | None = None
    """The official one, if it is the benchmark's own."""

    def trace(self, item: Item, result: Result, video: VideoRef, versions: Mapping[str, str]) -> Trace:
        """The record of a question."""
        key, protocol, parser = self.run_key, self.protocol, self.parser
        return make_trace(item, result, video, run_key=key, protocol=protocol, parser=parser, served=versions)


@dataclass(frozen=True)
class Exploration:
    """The questions of a synthesis that are to be explored, and where they are recorded."""

    config: SynthesisConfig
    folder: SynthesisFolder
    benchmark: Benchmark
    items: Sequence[Item]
    redo: Redo
    identity: Mapping[str, Any]
    """That of the questions; those of the models are added."""
    plan: Mapping[str, Any]
    make_planner: Callable[[Backbone | None], Planner]

    def here(self, backbone: Backbone) -> None:
        """Explore in this process, with a backbone that is closed at the end."""
        config, folder = self.config, self.folder
        with ExitStack() as stack:
            stack.callback(backbone.close)
            planner = self.make_planner(backbone)
            models = ModuleModels(config, answering=own_model(backbone), flag=MODELS_FLAG)
            job = self._begin(planner, models.identity(), backbone.identity())
            teacher = open_teacher(config, planner, folder.replies)
            stack.callback(teacher.close)
            log = stack.enter_context(closing(folder.log(redo=self.redo)))
            progress = stack.enter_context(self._progress(teacher.budget.text))
            log.refresh()
            # A separate reader: what other commands on the folder record counts too.
            progress.watch(folder.log(writable=False))
            run_pipeline(
                units(self.items),
                Explorer(backbone, models, teacher, config),
                backbone,
                log,
                job,
                leases=folder.leases,
                in_flight=config.videos_in_flight(),
                on_progress=progress.update,
                halt=teacher.cancel,
            )

    def on_cluster(self, load: Callable[[], Backbone], settings: RaySettings) -> None:
        """Explore on the cluster at RAY_ADDRESS. Raises VideoProError, WorkerBug for an internal error, and
        RunError if workers keep dying or the cluster is gone."""
        config, folder, work = self.config, self.folder, units(self.items)
        import ray

        planner, ids = self.make_planner(None), [item.id for item in self.items]
        budget = config.budget()
        with ExitStack() as stack:
            progress = stack.enter_context(self._progress(budget.text))
            cluster = stack.enter_context(Cluster())
            # One that asks no model writes in each worker.
            free = None if planner.asks_model else self.make_planner
            # On this machine, whose disk has the file of replies.
            host = cluster.start_beside(TeacherHost, calls=config.concurrency)
            make = partial(ExploringWorker, config, load, free, host)
            pool: WorkerPool[Item, Trace] = WorkerPool(cluster, make, settings, most=len(work))
            stack.enter_context(pool)
            # Only the workers know what their models are, and nothing is created before one has loaded them.
            models = pool.start()
            job = self._begin(planner, models["modules"], models["model"])
            # Alone: workers hold no leases, so another command would explore the same questions.
            stack.enter_context(folder.running(ids, alone=True))
            # What the other process spends is read in the file of replies.
            replies = stack.enter_context(closing(ReplyLog(folder.replies, budget)))
            if free is None:
                path = folder.replies.absolute()
                ray.get(host.open.remote(config, self.make_planner, path, _environment(config)))
            log = stack.enter_context(closing(folder.log(redo=self.redo)))
            log.refresh()
            progress.watch(folder.log(writable=False))
            left = [replace(u, items=tuple(i for i in u.items if not log.is_done(i.id))) for u in work]
            died = partial(record_crash, folder.crashes)
            shown = time.monotonic()
            for records, given_up in pool.run(left, job, read_crashes(folder.crashes), died):
                crashed = [
                    job.trace(item, Result(error=worker_died(reason)), video_ref(item), {})
                    for item, reason in given_up
                ]
                log.append_all([*(trace for _, trace in records), *crashed])
                if time.monotonic() - shown >= _SHOW_SECONDS:
                    shown = time.monotonic()
                    replies.refresh()
                    progress.update()

    def _begin(self, planner: Planner, modules: object, model: object) -> SynthesisJob:
        """Create the folder, or check that it is this synthesis's."""
        full = {**self.identity, "teacher": planner.identity(), "modules": modules, "model": model}
        key = self.folder.open(as_mapping(self.config), full)
        self.folder.keep_plan(self.plan)
        return SynthesisJob(key, self.benchmark.protocol, self.benchmark.parser)

    def _progress(self, spent: Callable[[], str]) -> Progress:
        watch = ExceptionWatch(self.folder.exceptions)
        return Progress([item.id for item in self.items], doing="exploring", note=spent, seen=watch.see)


def open_teacher(config: SynthesisConfig, planner: Planner, replies: Path) -> Teacher:
    """The teacher with its caps and the file of its replies."""
    budget = config.budget()
    log = ReplyLog(replies, budget)
    log.load()
    return Teacher(planner, budget, log, concurrency=config.concurrency, longest=config.max_new_tokens)


def explore_unit(
    items: Sequence[Item], explorer: Explorer, backbone: Backbone, job: SynthesisJob
) -> Iterator[Trace]:
    """The records of questions about one video, wherever they are kept; questions that a cap cut short are
    left out. Raises what `Explorer.explore` raises, and BackboneError where the backbone no longer serves any
    request."""
    for item, result, video in explorer.explore(items):
        if result.error is not None and result.error.type == BackboneError.__name__:
            check_alive(backbone, result.error.message)
        yield job.trace(item, result, video, backbone.versions)


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


# ---- on a cluster ------------------------------------------------------------------------------------------


class ExploringWorker:
    """Explores questions on a node, several videos at a time. `make_free`: makes a teacher that asks no
    model; None: `teacher` asks one, a `TeacherHost`."""

    def __init__(
        self,
        config: SynthesisConfig,
        load: Callable[[], Backbone],
        make_free: Callable[[Backbone | None], Planner] | None,
        teacher: Any,
    ) -> None:
        self.in_flight = config.videos_in_flight()
        self._backbone = load()
        self._models = ModuleModels(config, answering=own_model(self._backbone), flag=MODELS_FLAG)
        asked: SendsRequests = _RemoteTeacher(teacher)
        if make_free is not None:
            asked = Teacher(make_free(None), config.budget())
        self._explorer = Explorer(self._backbone, self._models, asked, config)

    def identity(self) -> dict[str, object]:
        """Of the model that answers, and of those behind the modules."""
        return {"model": self._backbone.identity(), "modules": self._models.identity()}

    def work(self, job: SynthesisJob, items: Sequence[Item]) -> Iterator[tuple[str, Trace]]:
        """The record of each question about one video; none for a question that a cap cut short."""
        for trace in explore_unit(items, self._explorer, self._backbone, job):
            yield trace.question_id, trace
        # Freed heap goes back to the system; over hours of videos it would add up.
        trim_heap()


# In small letters.
_NETWORK = {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"}


def _environment(config: SynthesisConfig) -> dict[str, str]:
    """What the teacher's client reads in the environment: its key, and how the network is reached. No more,
    since it leaves this process."""
    keys = {need.key for need in planner_needs(config.teacher or "", config.api_key_env)}
    return {name: value for name, value in os.environ.items() if name in keys or name.lower() in _NETWORK}


class TeacherHost:
    """A Ray actor on the command's own machine that asks the teacher for all workers."""

    def __init__(self) -> None:
        self._teacher: Teacher | None = None

    def open(
        self,
        config: SynthesisConfig,
        make_planner: Callable[[Backbone | None], Planner],
        replies: Path,
        environment: Mapping[str, str],
    ) -> None:
        """Make the teacher. `environment`: of the command's, as the node's own may lack it."""
        os.environ.update(environment)
        self._teacher = open_teacher(config, make_planner(None), replies)

    def ask(self, request: PlanRequest) -> PlannerReply | Refusal | Exception:
        """Its reply, or the error that came instead, as a value: Ray wraps what a method raises."""
        assert self._teacher is not None
        try:
            return self._teacher.answer(request)
        except (CapReached, VideoProError) as error:
            return error
        except Exception:
            return WorkerBug(traceback.format_exc())


class _RemoteTeacher:
    """The teacher as a worker has it: each request is a call of the `TeacherHost`."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def send(self, requests: Sequence[PlanRequest]) -> list[Future[PlannerReply | Refusal]]:
        """As `Teacher.send`."""
        futures: list[Future[PlannerReply | Refusal]] = []
        for request in requests:
            future: Future[PlannerReply | Refusal] = Future()
            self._host.ask.remote(request).future().add_done_callback(partial(_pass_on, future))
            futures.append(future)
        return futures


def _pass_on(future: Future[PlannerReply | Refusal], call: Future[Any]) -> None:
    """Passes the result of a `TeacherHost` call to the waiting caller."""
    if call.exception() is not None:
        future.set_exception(
            RunError("the process that sends requests to the teacher died; re-run the same command to resume")
        )
    elif isinstance(call.result(), Exception):
        future.set_exception(call.result())
    else:
        future.set_result(call.result())
