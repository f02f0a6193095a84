"""Measures what one driver spends on a run with `--engine ray`: on handing out a unit, and on a trace.

Real Ray on this machine, real workers' traffic, a real log with its fsync, and the progress that reads it.
The workers answer at once, so that the driver is what takes the time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perf.timing import Spent
from videopro.cluster import Cluster, RaySettings, WorkerPool
from videopro.question import Answer
from videopro.traces import SCHEMA, Call, Execution, Round, Trace, TraceLog, VideoRef
from videopro.work import CrashRecord, Progress, Unit

_WORKERS = 2
_COUNT_SECONDS = 0.5


@dataclass(frozen=True)
class _Item:
    id: str
    video_key: str = ""


class _Echo:
    """A worker that sends a trace of the usual size for each item."""

    in_flight = 8

    def identity(self) -> dict[str, object]:
        return {}

    def work(self, job: Trace, items: Sequence[_Item]) -> Iterator[tuple[str, Trace]]:
        for item in items:
            yield item.id, replace(job, question_id=item.id)


def measure(units: int = 200) -> dict[str, Any]:
    """Milliseconds of the driver: CPU time of its process for a unit and for a trace, wall time of a trace's
    part of an append with fsync; and the traces a second that came through."""
    with Cluster() as cluster:
        spent = _run(cluster, units, 10)
        give = _give_cpu_s(units)
    trace = (spent.cpu_s - units * give) / (10 * units)
    return {
        "trace_bytes": len(_trace().to_line()),
        "units": units,
        "give_cpu_ms": round(1e3 * give, 3),
        "trace_cpu_ms": round(1e3 * trace, 3),
        "append_ms": {"one": round(1e3 * _append_s(1), 3), "of 16": round(1e3 * _append_s(16), 3)},
        "traces_per_s": round(10 * units / spent.wall_s, 1),
    }


def _give_cpu_s(times: int) -> float:
    """CPU seconds of this process to call an actor whose results come in a stream, until all have ended."""
    import ray

    class Host:
        def work(self, items: Sequence[_Item]) -> Iterator[None]:
            yield from ()

    remote: Any = ray.remote(Host)
    actor = remote.options(num_cpus=0.5).remote()
    items = tuple(_Item(f"video000000-question{q:02d}") for q in range(10))
    began = time.process_time()
    streams = [actor.work.options(num_returns="streaming").remote(items) for _ in range(times)]
    for stream in streams:
        for _ in stream:
            pass
    return (time.process_time() - began) / times


def _run(cluster: Cluster, count: int, per_unit: int) -> Spent:
    work = [
        Unit(str(n), tuple(_Item(f"video{n:06d}-question{q:02d}") for q in range(per_unit)))
        for n in range(count)
    ]
    ids = [item.id for unit in work for item in unit.items]
    settings = RaySettings(workers=_WORKERS, cpus=0.5, gpus=0.0)
    pool: WorkerPool[_Item, Trace] = WorkerPool(cluster, _Echo, settings, most=_WORKERS)
    with tempfile.TemporaryDirectory() as folder, pool, Progress(ids, shown=False) as progress:
        pool.start()
        time.sleep(5)  # until the second worker is there too
        log = TraceLog(Path(folder) / "traces.jsonl", run_key="key")
        with closing(log):
            log.refresh()
            progress.watch(TraceLog(log.path, run_key="key", writable=False))
            spent = Spent()
            wall, cpu, counted = time.perf_counter(), time.process_time(), 0.0
            for found, _ in pool.run(work, _trace(), CrashRecord.empty(), lambda ids, reason: None):
                log.append_all([trace for _, trace in found])
                if time.perf_counter() - counted > _COUNT_SECONDS:
                    counted = time.perf_counter()
                    progress.update()
            spent.wall_s, spent.cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    return spent


def _append_s(together: int, times: int = 200) -> float:
    """Wall seconds of a trace, if so many are appended at once: the median."""
    batches = [[replace(_trace(), question_id=f"{n}-{i}") for i in range(together)] for n in range(times)]
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(TraceLog(Path(folder) / "traces.jsonl", run_key="key")) as log,
    ):
        log.refresh()
        took = []
        for batch in batches:
            began = time.perf_counter()
            log.append_all(batch)
            took.append(time.perf_counter() - began)
        return statistics.median(took) / together


def _trace() -> Trace:
    """As large as one of method videopro: 7.3 kB on average in the demo's run."""
    answer = Answer("A", 0.9, {"A": 0.9, "B": 0.1}, "A", 1000, 1)
    frames = tuple((round(55.25 * n, 3), 360.0, 640.0) for n in range(16))
    calls = tuple(Call("query_mc", {"frames": 16}, "A (0.90)", frames) for _ in range(10))
    execution = Execution("ok", answer, calls=calls)
    program = "    frames = trim_frames(video, 0.0, 60.0, num_frames=16)\n" * 20
    rounds = (Round("plan", program, execution=execution, mode="program"),)
    return Trace(
        rounds,
        answer,
        answer,
        schema=SCHEMA,
        run_key="key",
        question_id="q",
        video=VideoRef("video.mp4", "video"),
        question="What happens at the end?",
        choices=("one", "another"),
        gold="A",
    )
