"""A synthesis on a Ray cluster: workers hold the answering model and the modules' models, and explore one
video after the other. This process asks the teacher and writes the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from videopro.backbones import Backbone, own_model
from videopro.benchmarks import Benchmark, Item
from videopro.cli import trim_heap
from videopro.data_synthesis.explore import Explorer
from videopro.data_synthesis.folder import SynthesisFolder
from videopro.data_synthesis.mailbox import RemoteTeacher, TeacherDesk
from videopro.data_synthesis.pipeline import SynthesisJob, explore_unit
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.data_synthesis.teacher import Teacher
from videopro.engine import ExceptionWatch, Progress, Unit, read_crashes, record_crash, units
from videopro.engine.cluster import Cluster, RaySettings, WorkerPool
from videopro.methods import make_trace, video_ref
from videopro.methods.planners import Planner
from videopro.modules import ModuleModels
from videopro.traces import Failure, Redo, Result, Trace, TraceLog

_SHOW_SECONDS = 0.5


class ExploringWorker:
    """Explores questions on a node, several videos at a time."""

    def __init__(
        self,
        config: SynthesisConfig,
        load: Callable[[], Backbone],
        load_free_teacher: Callable[[], Planner] | None,
        mailbox: Any,
        models_flag: str,
    ) -> None:
        self.in_flight = config.videos_in_flight()
        self._backbone = load()
        self._models = ModuleModels(config, answering=own_model(self._backbone), flag=models_flag)
        teacher = RemoteTeacher(None if load_free_teacher is None else load_free_teacher(), mailbox)
        self._explorer = Explorer(self._backbone, self._models, teacher, config.explore_settings())

    def identity(self) -> dict[str, object]:
        """Of the model that answers, and of those behind the modules."""
        return {"model": self._backbone.identity(), "modules": self._models.identity()}

    def work(self, job: SynthesisJob, items: Sequence[Item]) -> Iterator[tuple[str, Trace]]:
        """The record of each question about one video; none for a question that a cap cut short."""
        for trace in explore_unit(items, self._explorer, self._backbone, job):
            yield trace.question_id, trace
        # Freed heap goes back to the system; over hours of videos it would add up.
        trim_heap()


def explore_on_cluster(
    config: SynthesisConfig,
    settings: RaySettings,
    items: Sequence[Item],
    folder: SynthesisFolder,
    redo: Redo,
    benchmark: Benchmark,
    *,
    load: Callable[[], Backbone],
    load_free_teacher: Callable[[], Planner] | None,
    models_flag: str,
    open_folder: Callable[[Mapping[str, object]], str],
    make_teacher: Callable[[], Teacher],
    spent: Callable[[], str],
) -> None:
    """Explore the questions that are still open on the cluster at RAY_ADDRESS, and record them.

    `load_free_teacher` makes a teacher that asks no model, for each worker; None: the one of `make_teacher`
    is asked from here. `open_folder` gets the identity of the workers' models and returns the run's key;
    `make_teacher` is called after it. Raises VideoProError, WorkerBug for an internal error, and RunError if
    workers keep dying or the cluster is gone.
    """
    work = units(items)
    with ExitStack() as stack:
        ids, watch = [item.id for item in items], ExceptionWatch(folder.exceptions)
        progress = stack.enter_context(Progress(ids, doing="exploring", note=spent, seen=watch.see))
        cluster = stack.enter_context(Cluster())
        desk = TeacherDesk(cluster)
        make = partial(ExploringWorker, config, load, load_free_teacher, desk.mailbox, models_flag)
        pool: WorkerPool[Item, Trace] = WorkerPool(cluster, make, settings, most=len(work))
        stack.enter_context(pool)
        key = open_folder(pool.start())
        stack.enter_context(folder.running(ids, alone=True))
        stack.enter_context(desk.serving(make_teacher()))
        log = stack.enter_context(closing(folder.log(redo=redo)))
        log.refresh()
        progress.watch(folder.log(writable=False))
        job = SynthesisJob(key, benchmark.protocol, benchmark.parser)
        died = partial(record_crash, folder.crashes)
        refreshed = time.monotonic()
        for records, given_up in pool.run(_open_units(work, log), job, read_crashes(folder.crashes), died):
            crashed = [_died_trace(item, reason, job) for item, reason in given_up]
            log.append_all([*(trace for _, trace in records), *crashed])
            # It reads the log, and looks at every question.
            if time.monotonic() - refreshed >= _SHOW_SECONDS:
                refreshed = time.monotonic()
                progress.update()


def _died_trace(item: Item, reason: str, job: SynthesisJob) -> Trace:
    died = Failure("WorkerDied", f"{reason}, as did earlier workers on this question")
    return make_trace(
        item,
        Result(error=died),
        video_ref(item),
        run_key=job.run_key,
        protocol=job.protocol,
        parser=job.parser,
    )


def _open_units(work: Sequence[Unit[Item]], log: TraceLog) -> list[Unit[Item]]:
    left = [Unit(unit.key, tuple(item for item in unit.items if not log.is_done(item.id))) for unit in work]
    return [unit for unit in left if unit.items]
