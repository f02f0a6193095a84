"""python -m videopro.infer: answer a benchmark's questions with a method and a model, into a run folder.

    python -m videopro.infer --benchmark pocket --split test --method native --model pocket --output runs/NAME

Killed at any moment, the same command resumes, with any number of workers; a larger --limit adds questions.
`accelerate launch -m videopro.infer ...` places one worker on each GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from videopro import benchmarks, methods
from videopro.backbones import Backbone, load_backbone, read_spec
from videopro.benchmarks import PRESETS, Benchmark, Item
from videopro.cli import exit_status
from videopro.errors import ConfigError
from videopro.methods import MethodFlags
from videopro.runner import Supervisor, Tracking, WorkerJob, check_trackers, place_workers
from videopro.runs import (
    RUN_FIELDS,
    RunFolder,
    RunTail,
    check_model,
    check_questions,
    read_grades,
    summarize,
    summary_table,
    write_summary,
)
from videopro.settings import from_command_line, read_yaml, setting
from videopro.work import Progress, units

PROG = "python -m videopro.infer"


@dataclass(frozen=True)
class InferConfig(MethodFlags):
    """The settings of a run, as flags or as YAML."""

    benchmark: str = field(
        metadata=setting(
            f"one of {', '.join(benchmarks.NAMES)}; or several under one name: {', '.join(PRESETS)}, each "
            "from ROOT/NAME into OUTPUT/NAME"
        )
    )
    model: str = field(metadata=setting("pocket, a hub name, a folder, or server:MODEL@URL"))
    output: Path = field(metadata=setting("folder of the run; resumed if it contains the same run"))
    split: str = field(default="", metadata=setting("split of the benchmark; unset: its default"))
    root: Path | None = field(
        default=None, metadata=setting("folder of the benchmark's files; required except for pocket")
    )
    annotations: str = field(
        default="",
        metadata=setting("file with the questions, or hf:REPO:CONFIG:SPLIT; unset: the official one"),
    )
    protocol: str = field(default="", metadata=setting("evaluation protocol; unset: the benchmark's default"))
    skip_broken: bool = field(default=False, metadata=setting("skip broken records of the benchmark"))
    world_seed: int | None = field(default=None, metadata=setting("seed of pocket's split 'fresh'"))
    method: str = field(default="native", metadata=setting("one of " + ", ".join(methods.METHODS)))
    options: dict[str, Any] = field(
        default_factory=dict, metadata=setting("settings of the method, such as frames=16")
    )
    backbone: dict[str, Any] = field(
        default_factory=dict, metadata=setting("settings of the backbone, such as dtype=bf16 adapter=FOLDER")
    )
    limit: int | None = field(
        default=None,
        metadata=setting("number of questions to answer (whole videos, in an order drawn from seed)"),
    )
    ids: tuple[str, ...] = field(default=(), metadata=setting("answer only these questions"))
    seed: int = field(default=0, metadata=setting("random seed: the order of --limit, sampling in methods"))
    workers: int = field(
        default=1, metadata=setting("worker processes (under accelerate launch: for each rank)")
    )
    redo_errors: bool = field(
        default=False, metadata=setting("answer the questions again that ended in an error")
    )
    report_to: tuple[str, ...] = field(
        default=(), metadata=setting("send the summary's numbers to wandb, trackio or tensorboard")
    )


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status: 0, 1 for an internal error, 2 for an error that the user can
    fix, 130 when interrupted. `load(model, **settings)` makes the backbone in each worker (tests pass their
    own)."""
    with exit_status() as status:
        config = from_command_line(
            InferConfig,
            sys.argv[1:] if argv is None else argv,
            PROG,
            "Answer a benchmark's questions about videos.",
            ignore=RUN_FIELDS,
        )
        runs = expand_preset(config)
        if len(runs) > 1:
            for each in runs:
                check(each, load=load)
        for each in runs:
            run(each, load=load)
    return status.code


def load_benchmark(config: InferConfig) -> Benchmark:
    """The benchmark that a run answers. Raises VideoProError."""
    return benchmarks.load(
        config.benchmark,
        split=config.split or benchmarks.default_split(config.benchmark),
        root=config.root,
        world_seed=config.world_seed,
        protocol=config.protocol,
        annotations=config.annotations,
        skip_broken=config.skip_broken,
    )


def expand_preset(config: InferConfig) -> list[InferConfig]:
    """The runs for these settings: one, or one for each benchmark of a preset, with the preset's splits,
    protocols and frames. Raises VideoProError, also for a missing benchmark, before any of them is run."""
    if config.benchmark not in PRESETS:
        return [config]
    parts, frames = PRESETS[config.benchmark]
    own = ("split", "protocol", "annotations", "ids", "world_seed")
    for name in own:
        if getattr(config, name) not in (None, "", ()):
            raise ConfigError(
                f"--{name.replace('_', '-')}: preset {config.benchmark!r} sets it, or it applies "
                "to a single benchmark; leave it out, or give --benchmark one of "
                + ", ".join(benchmark for benchmark, _, _ in parts)
            )
    if config.root is None:
        named = ", ".join(benchmark for benchmark, _, _ in parts)
        raise ConfigError(f"preset {config.benchmark!r}: needs --root, a folder with the folders {named}")
    if config.backbone.get("frames", frames) != frames:
        raise ConfigError(
            f"backbone frames is {config.backbone['frames']}, and preset {config.benchmark!r} is of {frames} "
            "frames a call; leave it out"
        )
    runs = []
    for benchmark, split, protocol in parts:
        root = config.root / benchmark
        benchmarks.load(benchmark, split=split, root=root, protocol=protocol, skip_broken=config.skip_broken)
        runs.append(
            replace(
                config,
                benchmark=benchmark,
                split=split,
                protocol=protocol,
                root=root,
                output=config.output / benchmark,
                backbone={**config.backbone, "frames": frames},
            )
        )
    return runs


@dataclass(frozen=True)
class _PreparedRun:
    """A run that can start or resume: its settings and its folder agree."""

    folder: RunFolder
    benchmark: Benchmark
    method: methods.Method
    options: Mapping[str, Any]
    items: Sequence[Item]
    identity: Mapping[str, Any]
    """What the run's key hashes, apart from the model."""
    is_done: bool
    """Whether every question has its answer."""


def run(config: InferConfig, *, load: Callable[..., Backbone] = load_backbone) -> dict[str, Any] | None:
    """Answer the questions, print the table, and return the summary (None on ranks above 0).

    Raises VideoProError for an error that the user can fix, WorkerBug for an internal error.
    """
    start = check(config, load=load)
    _cut_torn_line(start.folder)
    rank = int(os.environ.get("RANK", "0"))
    with Tracking(config.report_to if rank == 0 else (), start.folder) as tracking:
        if not start.is_done:
            if start.benchmark.fetch is not None:
                start.benchmark.fetch(start.items)
            _answer(config, start, load, rank, tracking)
        if rank > 0:
            return None
        start.folder.clear_leases()
        tracking.open(read_yaml(start.folder.config))
        return _summarized(start, tracking)


def check(config: InferConfig, *, load: Callable[..., Backbone] = load_backbone) -> _PreparedRun:
    """Check whether the run can start or resume, without changing anything. The workers check the model when
    they load it; if every question is answered already, it is checked here.

    Raises VideoProError for invalid settings, or a folder of another run.
    """
    if config.workers < 1:
        raise ConfigError(f"workers is {config.workers}; it must be at least 1")
    check_trackers(config.report_to)
    options = config.options_with_flags(config.method, config.options)
    methods.create(config.method, options)
    if load is load_backbone:
        # Invalid settings are found before anything is loaded.
        read_spec(config.model, **config.backbone)
    folder = RunFolder(config.output)
    folder.check()
    benchmark = load_benchmark(config)
    options = methods.METHODS[config.method].follow(benchmark.protocol, options)
    method = methods.create(config.method, options)
    method.check_open_questions(sum(item.question.is_open for item in benchmark.items))
    items = benchmark.select(limit=config.limit, ids=config.ids, seed=config.seed)
    identity = {
        "method": method.identity(),
        "protocol": {
            "benchmark": benchmark.name,
            "split": benchmark.split,
            "version": benchmark.version,
            **benchmark.protocol.identity(),
        },
        "generation": {"seed": config.seed},
    }
    folder.check_same(identity)
    recorded = folder.read() if folder.traces.exists() else []
    check_questions(recorded, benchmark, folder)
    done = {trace.question_id for trace in recorded if not (config.redo_errors and trace.error)}
    is_done = {item.id for item in items} <= done
    if is_done:
        check_model(folder, identity, config.model, config.backbone, load)
    return _PreparedRun(folder, benchmark, method, options, items, identity, is_done)


def _cut_torn_line(folder: RunFolder) -> None:
    """Cut a line that a killed writer left half-written."""
    if not folder.traces.exists():
        return
    with closing(folder.log()) as log:
        log.refresh()
        if log.torn:
            print("cut a torn line that a killed run left; its question is answered again", file=sys.stderr)


def _summarized(start: _PreparedRun, tracking: Tracking) -> dict[str, Any]:
    """Write the summary, print its table, and send it to the trackers."""
    folder, benchmark, method = start.folder, start.benchmark, start.method
    settings = read_yaml(folder.config)
    about = {
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "protocol": benchmark.protocol.name,
        "method": method.name,
        "model": settings["model"],
        "subtitles": "none, by the protocol"
        if benchmark.protocol.subtitles == "none"
        else method.settings.subtitles,
        "broken_records": len(benchmark.broken),
        "defects": len(benchmark.defects),
        "settings": method.identity(),
        "run_key": settings["run_key"],
    }
    grades = read_grades(folder.grades, benchmark.protocol.judge)
    summary = summarize(folder.read(), benchmark.protocol, about, grades)
    write_summary(folder.summary, summary)
    tracking.send(summary, summary["questions"])
    Console().print(summary_table(summary, benchmark.protocol.groups, folder.path))
    Console().print(f"run folder: {folder.path}", soft_wrap=True)
    return summary


def _answer(
    config: InferConfig, start: _PreparedRun, load: Callable[..., Backbone], rank: int, tracking: Tracking
) -> None:
    """Answer the remaining questions, with workers of this process and of the other ranks."""
    folder, protocol = start.folder, start.benchmark.protocol
    ids = [item.id for item in start.items]
    supervisor = Supervisor(
        place_workers(config.workers, os.environ),
        partial(load, config.model, **config.backbone),
        (config.method, start.options),
    )
    with Progress(ids, shown=rank == 0) as progress, supervisor:
        identity = {**start.identity, "model": supervisor.model_identity()}
        key = folder.open(_as_mapping(config), identity)
        job = WorkerJob(folder, key, tuple(units(start.items)), protocol, config.seed, config.redo_errors)
        with folder.running(ids):
            tracking.open(read_yaml(folder.config), RunTail(folder, protocol))
            progress.watch(folder.log(redo_errors=config.redo_errors))
            for _ in supervisor.run(job, progress.update):
                tracking.update()


def _as_mapping(config: InferConfig) -> dict[str, Any]:
    """The settings for YAML; paths are written as they were given."""
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in asdict(config).items()
    }


if __name__ == "__main__":
    sys.exit(main())
