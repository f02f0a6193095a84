"""Measures the memory of a worker over many questions: whether it levels off.

    nice python -m perf.memory [--splits test val] [--store 512 64] [--limit N] [--in-flight N] \\
        [--keep-freed] [--output FILE]

Each leg is its own process, which answers the questions of the splits one after another, as a worker of
`videopro.infer --method videopro --planner pocket-teacher --model pocket` does
(`videopro.runs.making.worker`), with the frame store bounded by `--store` MiB and `--in-flight` videos at a
time. After every group of questions it records its own resident memory (`rss_mib`), the size of the frame
store (`store_mib`), the number of cached module calls, and the memory of its child processes, the sandbox.
`--keep-freed` switches off the trimming that a worker does between two videos (`videopro.cli.process`).
The figures by tenth are medians over a tenth of the groups each; a leak would show in those after the store
is full. At the end the store is emptied and freed memory returned: what is resident then is `emptied_mib`.
`wall_s` and `cpu_s` are of the leg's process with its sandbox, loading included. The results are added to
those of earlier calls in perf/memory.json.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from perf import ROOT
from perf.child import call_in_child
from perf.command import run_command
from perf.decoders import versions
from perf.recorded import print_tables
from perf.recording import recorded_rows, write_record
from perf.timing import timed
from videopro import benchmarks, methods
from videopro.backbones import load_backbone
from videopro.cli import setting, trim_heap
from videopro.engine import units
from videopro.modules.library import shared_cache
from videopro.runs import RunFolder
from videopro.runs.making import worker
from videopro.video import shared_store

MIB = 2**20


@dataclass(frozen=True)
class MemorySettings:
    """Measure the memory of a worker over many questions."""

    splits: tuple[str, ...] = field(default=("test", "val"), metadata=setting("splits of pocket, in order"))
    store: tuple[int, ...] = field(
        default=(512, 64), metadata=setting("bounds of the frame store, MiB; one leg each")
    )
    limit: int | None = field(default=None, metadata=setting("questions of each split"))
    in_flight: int = field(default=1, metadata=setting("videos in flight"))
    keep_freed: bool = field(default=False, metadata=setting("do not return freed memory"))
    output: Path = field(
        default=ROOT / "perf" / "memory.json", metadata=setting("file to which the results are added")
    )


class Sampler:
    """Records the process's memory whenever a worker has answered questions."""

    def __init__(self) -> None:
        self.questions = 0
        self.samples: list[dict[str, float]] = []
        self._process = psutil.Process()
        self._began = time.monotonic()
        self._in_flight: set[str] = set()

    def answering(self, ids: Sequence[str]) -> None:
        """Called by a worker (`videopro.runs.making.worker.Reporter`)."""
        answered = self._in_flight.difference(ids)
        self._in_flight = set(ids)
        if answered:
            self.questions += len(answered)
            self.samples.append(self.sample())

    def doing(self, counts: Mapping[str, int]) -> None:
        """Not looked at."""

    def sample(self) -> dict[str, float]:
        """Memory now, in MiB."""
        children = sum(child.memory_full_info().uss for child in self._process.children(recursive=True))
        return {
            "questions": self.questions,
            "seconds": round(time.monotonic() - self._began, 1),
            "rss_mib": round(self._process.memory_info().rss / MIB, 1),
            "store_mib": round(shared_store().bytes / MIB, 1),
            "calls": len(shared_cache()),
            "children_mib": round(children / MIB, 1),
        }


def measure_questions(
    splits: Sequence[str], store_mib: int, limit: int | None, keep_freed: bool, in_flight: int
) -> dict[str, Any]:
    """Answer the splits in this process. Returns the samples and the memory left at the end."""
    if keep_freed:
        setattr(worker, "trim_heap", lambda: None)  # noqa: B010
    shared_store().resize(store_mib * MIB)
    backbone = load_backbone("pocket")
    method = methods.create("videopro", {"planner": "pocket-teacher"})
    sampler = Sampler()
    start = sampler.sample()
    with tempfile.TemporaryDirectory() as scratch:
        for split in splits:
            benchmark = benchmarks.load("pocket", split=split)
            items = benchmark.select(limit=limit)
            assert benchmark.fetch is not None
            benchmark.fetch(items)
            folder = RunFolder(Path(scratch) / split)
            key = folder.open({}, {"method": method.identity(), "model": backbone.identity()})
            job = worker.WorkerJob(
                folder, key, tuple(units(items)), benchmark.protocol, 0, in_flight=in_flight
            )
            worker.run_worker(job, method, backbone, sampler)
    shared_store().clear()
    gc.collect()
    trim_heap()
    return {"start": start, "samples": sampler.samples, "emptied": sampler.sample()}


def summarize_samples(store_mib: int, result: dict[str, Any]) -> dict[str, Any]:
    """Summarize the samples of a leg."""
    samples = result["samples"]
    tenth = max(1, len(samples) // 10)
    tenths = [samples[at : at + tenth] for at in range(0, len(samples) - tenth + 1, tenth)]
    last = samples[-1]
    full = next((sample for sample in samples if sample["store_mib"] >= 0.99 * store_mib), None)
    return {
        "questions": last["questions"],
        "start_mib": result["start"]["rss_mib"],
        "store_full_after_questions": full["questions"] if full else None,
        "peak_mib": max(sample["rss_mib"] for sample in samples),
        "end_mib": last["rss_mib"],
        "end_store_mib": last["store_mib"],
        "remembered_calls": last["calls"],
        "children_mib": last["children_mib"],
        "emptied_mib": result["emptied"]["rss_mib"],
        "questions_by_tenth": [part[-1]["questions"] for part in tenths],
        **{
            f"{name}_by_tenth": [round(statistics.median(row[name] for row in part), 1) for part in tenths]
            for name in ("rss_mib", "store_mib")
        },
    }


def measure(settings: MemorySettings) -> None:
    """Measure each bound in a process of its own, and add its row to the file."""
    rows = recorded_rows(settings.output, "results", {})
    for store in settings.store:
        with timed() as spent:
            result = call_in_child(
                "perf.memory:measure_questions",
                *(settings.splits, store, settings.limit, settings.keep_freed, settings.in_flight),
            )
        row = {**summarize_samples(store, result), **spent.rounded()}
        name = f"{store} MiB" + (", freed memory kept" if settings.keep_freed else "")
        rows[name + (f", {settings.in_flight} in flight" if settings.in_flight > 1 else "")] = row
        record = {"results": rows, "versions": versions()}
        write_record(settings.output, record, indent=2)
        print_tables("perf/memory.json", record)


if __name__ == "__main__":
    run_command(MemorySettings, measure, "stopped; the legs that ended are recorded")
