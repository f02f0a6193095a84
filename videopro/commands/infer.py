"""videopro infer: answer a benchmark's questions with a method and a model, and write a run folder.

    videopro infer --benchmark BENCHMARK --root DIR --method native --model MODEL --output runs/NAME

Re-run the same command to resume, with any number of workers. A larger --limit adds questions.
`accelerate launch -m videopro.infer ...` places one worker on each GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from videopro.backbones import Backbone, load_backbone
from videopro.benchmarks import Benchmark, Item
from videopro.cli import CommandLine, Need, check_least, check_needs, exit_status, read_yaml, tracker_needs
from videopro.commands.infer_settings import InferConfig, load_benchmark, runs_of
from videopro.engine import ExceptionWatch, Progress, keep_tracebacks, units
from videopro.engine.cluster import MOST_IN_FLIGHT, read_ray_settings
from videopro.errors import ConfigError, RunError
from videopro.methods import METHOD_OPTIONS, PreparedRun, Questions, RunRequest, prepare
from videopro.runs import (
    RUN_FIELDS,
    Abstention,
    RunFolder,
    RunTail,
    Served,
    check_files,
    check_model,
    check_questions,
    generation_identity,
    read_grades,
    read_vllm_settings,
    summarize,
    summary_table,
    write_summary,
)
from videopro.runs.making import (
    ClusterSupervisor,
    Loader,
    Supervisor,
    Tracking,
    WorkerJob,
    check_trackers,
    place_workers,
)
from videopro.storage import JsonLinesLog
from videopro.traces import Redo, Trace
from videopro.video import check_nearest_intact

COMMAND = CommandLine("infer", InferConfig, ignore=RUN_FIELDS, configs="infer", options=METHOD_OPTIONS)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status: 0, 1 for an internal error, 2 for an error that the user can
    fix, also if it leaves a run without any answer, 130 when interrupted. `load(model, **settings)` makes the
    backbone in each worker."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        runs = runs_of(config)
        if len(runs) > 1:
            check_all(runs, load=load)
        summaries = {each.output: run(each, load=load) for each in runs}
        unanswered = [
            f"{output}: none of its {len(summary['failures'])} questions could be answered"
            for output, summary in summaries.items()
            if summary is not None and 0 < summary["questions"] == len(summary["failures"])
        ]
        if unanswered:
            raise RunError(
                f"{'; '.join(unanswered)} (the reasons are above); fix this and re-run the same command with "
                "--redo-errors"
            )
    return status.code


@dataclass(frozen=True)
class _Start:
    """A run that can start or resume: its settings and its folder agree."""

    config: InferConfig
    """With the backbone's settings that the method adds."""
    prepared: PreparedRun
    folder: RunFolder
    benchmark: Benchmark
    items: Sequence[Item]
    identity: Mapping[str, Any]
    """What the run's key hashes, apart from the model."""
    redo: Redo
    done: Sequence[Trace] | None
    """The folder's answers, if every question has one; None: there is work."""
    needs: Sequence[Need]
    """What must exist before it starts."""
    served: Served | None
    """What this command's engines serve; None: the workers load the model."""
    abstention: Abstention


def run(
    config: InferConfig,
    *,
    load: Callable[..., Backbone] = load_backbone,
    asked: tuple[Benchmark, list[Item]] | None = None,
) -> dict[str, Any] | None:
    """Answer the questions, print the table, and return the summary (None on ranks above 0). `asked`: as in
    `check`.

    Raises VideoProError for an error that the user can fix, WorkerBug for an internal error.
    """
    start = check(config, load=load, asked=asked)
    # Before anything is written: what is missing is reported while the folder is unchanged.
    check_needs(start.needs)
    _cut_torn_line(start.folder)
    rank = int(os.environ.get("RANK", "0"))
    if rank == 0:
        for note in start.prepared.notes:
            print(note, file=sys.stderr)
    with Tracking(config.report_to if rank == 0 else (), start.folder) as tracking:
        if start.done is None:
            if start.benchmark.fetch is not None:
                start.benchmark.fetch(start.items)
            _answer(start, rank, tracking, load)
        if rank > 0:
            return None
        start.folder.clear_leases()
        tracking.open(read_yaml(start.folder.config))
        return _summarized(start, tracking)


def check_all(
    configs: Iterable[InferConfig], *, load: Callable[..., Backbone] = load_backbone
) -> list[_Start]:
    """`check` several runs, and report everything that they miss in one error. Raises VideoProError."""
    starts = [check(config, load=load) for config in configs]
    check_needs(need for start in starts for need in start.needs)
    return starts


def check(
    config: InferConfig,
    *,
    load: Callable[..., Backbone] = load_backbone,
    asked: tuple[Benchmark, list[Item]] | None = None,
) -> _Start:
    """Check whether the run can start or resume, without changing anything. The workers check the model when
    they load it; if every question is already answered, it is checked here. `asked`: a benchmark and the
    questions of it to answer, instead of those that the settings name.

    Raises VideoProError for invalid settings, or a folder of another run.
    """
    check_least(config, 1, "workers", "in_flight")
    check_nearest_intact(config.nearest_intact)
    _check_engine(config)
    check_trackers(config.report_to)
    folder = RunFolder(config.output)
    folder.check()

    # `prepare` asks for the questions only where settings depend on them; they are loaded once.
    @cache
    def selected() -> tuple[Benchmark, list[Item]]:
        if asked is not None:
            return asked
        benchmark = load_benchmark(config)
        drawn = benchmark.select(limit=config.limit, ids=config.ids, seed=config.seed)
        return benchmark, drawn

    prepared = prepare(
        RunRequest(
            config.method,
            config.options,
            config.model,
            config.backbone,
            questions=lambda: _questions(*selected()),
            recorded=(folder.recorded_identity() or {}).get("method") or {},
            load=load,
        )
    )
    benchmark, items = selected()
    config = replace(config, backbone=dict(prepared.backbone))
    identity = {
        "method": prepared.identity,
        "protocol": {
            "benchmark": benchmark.name,
            "split": benchmark.split,
            "version": benchmark.version,
            **benchmark.protocol.identity(),
            "subtitle_track": config.subtitle_track,
        },
        "generation": generation_identity(config.seed, config.nearest_intact),
    }
    folder.check_same(identity)
    traces = folder.read() if folder.traces.exists() else []
    check_questions(traces, benchmark, folder)
    redo = check_files(
        traces, benchmark, items, folder, errors=config.redo_errors, changed=config.redo_changed
    )
    done = {trace.question_id for trace in traces if trace not in redo}
    is_done = {item.id for item in items} <= done
    served = None
    if config.engine == "vllm":
        served = Served.of(config.model, config.backbone, config.vllm)
    # What an engine serves is known once it has started.
    abstention = Abstention.of(config.abstain, prepared, load if served is None else None)
    if is_done and served is not None:
        # No engine is started for a run that is done: its records are compared.
        served.check(folder)
    elif is_done:
        check_model(folder, identity, config.model, config.backbone, load)
    needs = tracker_needs(config.report_to)
    # The workers of a cluster are on other machines.
    if not is_done and config.engine != "ray":
        needs += prepared.needs()
    return _Start(
        *(config, prepared, folder, benchmark, items, identity, redo),
        *(traces if is_done else None, needs, served, abstention),
    )


def _questions(benchmark: Benchmark, items: Sequence[Item]) -> Questions:
    """The questions as far as the run's settings depend on them. Open questions count even if they are
    not selected: a larger --limit adds them."""
    return Questions(
        benchmark.protocol,
        open=sum(item.question.is_open for item in benchmark.items),
        videos=dict.fromkeys(item.video for item in items) if benchmark.fetch is None else (),
    )


def _check_engine(config: InferConfig) -> None:
    """Raise ConfigError for worker settings that the engine does not have."""
    read_ray_settings(config.engine, config.ray)
    read_vllm_settings(config.engine, config.vllm)
    if config.engine != "ray":
        return
    if config.workers != 1:
        raise ConfigError(
            f"--workers {config.workers}: counts processes of this machine; with --engine ray, set --ray "
            f"workers={config.workers}"
        )
    if config.in_flight is not None and config.in_flight > MOST_IN_FLIGHT:
        raise ConfigError(
            f"in_flight is {config.in_flight}; --engine ray allows at most {MOST_IN_FLIGHT} per worker"
        )
    if "RANK" in os.environ:
        raise ConfigError(
            "--engine ray: starts the workers on all machines itself; run the command without "
            "accelerate launch or torchrun (RANK is set)"
        )


def _cut_torn_line(folder: RunFolder) -> None:
    """Remove a line that a killed writer left incomplete."""
    if not folder.traces.exists():
        return
    with closing(JsonLinesLog(folder.traces)) as log:
        log.cut_torn_tail()
        if log.torn:
            print("removed an incomplete line of a killed run; its question is retried", file=sys.stderr)


def _summarized(start: _Start, tracking: Tracking) -> dict[str, Any]:
    """Write the summary, print its table, and send it to the trackers."""
    folder, benchmark, method = start.folder, start.benchmark, start.prepared.method
    settings = read_yaml(folder.config)
    about = {
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "protocol": benchmark.protocol.name,
        "method": method.name,
        "model": settings["model"],
        "subtitles": "none, by the protocol"
        if benchmark.protocol.subtitles == "none"
        # A method need not have the setting.
        else asdict(method.settings).get("subtitles", "none"),
        "broken_records": [(issue.where, "", issue.reason) for issue in benchmark.broken],
        "defects": len(benchmark.defects),
        "settings": start.prepared.identity,
        "run_key": settings["run_key"],
    }
    grades = read_grades(folder.grades, benchmark.protocol.judge)
    traces = folder.read() if start.done is None else start.done
    keep_tracebacks(folder.exceptions, traces)
    summary = summarize(traces, benchmark.protocol, about, grades)
    start.abstention.check_model((folder.recorded_identity() or {})["model"])
    summary |= start.abstention.measured(traces)
    write_summary(folder.summary, summary)
    tracking.send(summary, summary["questions"])
    Console().print(summary_table(summary, benchmark.protocol.groups, folder.path))
    Console().print(f"run folder: {folder.path}", soft_wrap=True)
    return summary


def _answer(start: _Start, rank: int, tracking: Tracking, load: Callable[..., Backbone]) -> None:
    """Answer the remaining questions, with workers of this process and of the other ranks, and with engines
    if they serve the model."""
    config, prepared, folder = start.config, start.prepared, start.folder
    protocol, ids = start.benchmark.protocol, [item.id for item in start.items]
    with ExitStack() as stack:
        workers, engines = config.workers, None
        loaders: Loader | Sequence[Loader] = prepared.load
        if start.served is not None:
            engines = stack.enter_context(start.served.start(folder.logs, load, rank=rank))
            # One worker at least for each engine.
            workers, loaders = max(workers, len(engines.loaders)), engines.loaders
        supervisor = _supervisor(start, loaders, workers)
        watch = ExceptionWatch(folder.exceptions)
        progress = Progress(ids, visible=rank == 0, seen=watch.see, now=supervisor.now)
        stack.enter_context(progress)
        stack.enter_context(supervisor)
        # Only a worker that has loaded the model knows which one it is, and so whose folder this is.
        identity = {**start.identity, "model": supervisor.model_identity()}
        job = WorkerJob(
            folder,
            folder.open(_as_mapping(config), identity),
            tuple(units(start.items)),
            protocol,
            config.seed,
            start.redo,
            start.benchmark.parser,
            config.in_flight,
            workers * int(os.environ.get("WORLD_SIZE", "1")),
            config.nearest_intact,
            config.controls,
        )
        stack.enter_context(folder.running(ids, alone=config.engine == "ray"))
        tracking.open(read_yaml(folder.config), RunTail(folder, protocol))
        progress.watch(folder.log(redo=start.redo))
        for _ in supervisor.run(job, progress.update):
            # Engines are processes of this command: once one is given up, the run ends with its reason.
            if engines is not None:
                engines.check()
            tracking.update()


def _supervisor(
    start: _Start, load: Loader | Sequence[Loader], workers: int
) -> Supervisor | ClusterSupervisor:
    config, prepared = start.config, start.prepared
    method = (prepared.address, prepared.options)
    if config.engine == "ray":
        shares, most = read_ray_settings(config.engine, config.ray), len(tuple(units(start.items)))
        return ClusterSupervisor(shares, prepared.load, method, most=most, in_flight=config.in_flight)
    return Supervisor(place_workers(workers, os.environ), load, method)


def _as_mapping(config: InferConfig) -> dict[str, Any]:
    """The settings for YAML; paths are written as given."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
    }
