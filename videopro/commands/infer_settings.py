"""The settings of `videopro infer`, and the runs that they describe: one per benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from videopro import benchmarks, methods
from videopro.benchmarks import BENCHMARKS, PRESETS, SUBTITLE_TRACK_HELP, Benchmark
from videopro.cli import option, setting
from videopro.engine.cluster import RAY
from videopro.engine.serving import ENGINES, VLLM
from videopro.errors import ConfigError
from videopro.video import NEAREST_INTACT_HELP

QUESTIONS, METHOD, RUN = "Questions", "Method and model", "Run"
"""Headings of --help."""
METHOD_HELP = (
    f"answering method: {', '.join(methods.METHODS.ours())}, a plug-in or your own file (.py); with "
    "--help, the options of this method are listed below"
)


@dataclass(frozen=True, kw_only=True)
class VideoSettings:
    """How the files of a video are read."""

    subtitle_track: str | None = option(None, SUBTITLE_TRACK_HELP, group=QUESTIONS)
    nearest_intact: float = option(0.0, NEAREST_INTACT_HELP, group=QUESTIONS)


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """Which method a model answers with."""

    method: str = option("native", METHOD_HELP, group=METHOD)
    options: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting("options of the method; frames=16 is the same as --frames 16", group=METHOD),
    )
    backbone: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting("settings of the model, such as dtype=bf16 adapter=FOLDER", group=METHOD),
    )


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(MethodSettings):
    """Which model answers, and how."""

    model: str = field(
        metadata=setting(
            "a hub name such as Qwen/Qwen3-VL-8B-Instruct, a folder, server:MODEL@URL, or a plug-in "
            "(videopro models lists them)",
            group=METHOD,
        )
    )
    seed: int = option(0, "random seed for sampling and for drawing questions", group=METHOD)
    abstain: str = option(
        "",
        "RISK@FILE, such as 0.1@calibration.json: no answer below the confidence from which on at most the "
        "share RISK is wrong, by a file of `videopro calibrate`",
        group=METHOD,
    )


@dataclass(frozen=True, kw_only=True)
class WordsSettings:
    """For interactive questions, which may be answered in words."""

    max_new_tokens: int = option(256, "maximum length of a direct answer in words, in tokens", group=METHOD)


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """How many workers answer, and which questions they answer again."""

    workers: int = option(1, "worker processes on this machine (with accelerate launch: per rank)", group=RUN)
    in_flight: int | None = option(
        None,
        "videos that each worker handles at a time; unset: 32 with a server, 4 with a model in the worker",
        group=RUN,
    )
    redo_errors: bool = option(False, "retry questions that ended in an error", group=RUN)
    redo_changed: bool = option(
        False, "re-answer questions whose video, subtitles or transcript changed", group=RUN
    )


@dataclass(frozen=True, kw_only=True)
class BenchmarkSettings(VideoSettings):
    """Which benchmark to use, and how its files are read."""

    benchmark: str = field(
        metadata=setting(f"one of {', '.join(BENCHMARKS.ours())}, or your own file (.py)", group=QUESTIONS)
    )
    split: str = option("", "split of the benchmark; unset: the benchmark's default", group=QUESTIONS)
    root: Path | None = option(
        None,
        "folder of the benchmark's files, or hf:REPO on the hub; required unless its videos are generated",
        group=QUESTIONS,
    )
    annotations: str = option(
        "", "file with the questions, or hf:REPO:CONFIG:SPLIT; unset: the official one", group=QUESTIONS
    )
    protocol: str = option("", "evaluation protocol; unset: the benchmark's default", group=QUESTIONS)
    skip_broken: bool = option(False, "skip broken records of the benchmark", group=QUESTIONS)
    world_seed: int | None = option(
        None, "world seed of a benchmark that generates its videos; each gives other videos", group=QUESTIONS
    )


@dataclass(frozen=True, kw_only=True)
class InferConfig(WorkSettings, AnswerSettings, BenchmarkSettings):
    """The settings of a run, as flags or as YAML."""

    benchmark: str = field(
        metadata=setting(
            f"one or more of {', '.join(BENCHMARKS.ours())}, your own file (.py), or a set of them: "
            f"{', '.join(PRESETS)}; with several, each is read from ROOT/NAME and written to OUTPUT/NAME",
            group=QUESTIONS,
            joined=True,
        )
    )
    output: Path = field(metadata=setting("run folder; resumed if it contains the same run", group=RUN))
    limit: int | float | None = option(
        None,
        "number of questions to answer, or a share below 1, such as 0.1 (whole videos, in an order drawn "
        "from seed)",
        group=QUESTIONS,
    )
    ids: tuple[str, ...] = option((), "answer only these questions", group=QUESTIONS)
    controls: bool = option(
        False,
        "also answer without the evidence that the answer cites, and with that alone (videopro report "
        "--tables citations)",
        group=METHOD,
    )
    engine: Literal["local", "ray", "vllm"] = field(default="local", metadata={**ENGINES, "group": RUN})
    ray: dict[str, Any] = field(default_factory=dict, metadata={**RAY, "group": RUN})
    vllm: dict[str, Any] = field(default_factory=dict, metadata={**VLLM, "group": RUN})
    report_to: tuple[str, ...] = option(
        (), "log the summary's metrics to wandb, trackio or tensorboard", group=RUN
    )


def shared_settings(config: Any, base: type[Any]) -> dict[str, Any]:
    """The settings that a command inherits from a base class, for a run that it makes."""
    return {each.name: getattr(config, each.name) for each in fields(base)}


def load_benchmark(config: BenchmarkSettings) -> Benchmark:
    """The benchmark with its questions. Raises VideoProError."""
    benchmark = benchmarks.load(
        config.benchmark,
        split=config.split or BENCHMARKS[config.benchmark].splits[0],
        root=config.root,
        world_seed=config.world_seed,
        protocol=config.protocol,
        annotations=config.annotations,
        skip_broken=config.skip_broken,
    )
    return benchmark.with_subtitle_track(config.subtitle_track)


def runs_of(config: InferConfig) -> list[InferConfig]:
    """The runs for these settings, one per benchmark; runs of a preset have its splits, protocols and
    frames. Raises VideoProError, also for a missing benchmark, before the first run starts."""
    names = config.benchmark.split(",")
    # A single one may be a path, and keeps every setting that several cannot share.
    if len(names) == 1 and names[0] not in PRESETS:
        return [config]
    _check_shared(config)
    runs: dict[str, InferConfig] = {}
    for name in names:
        if name in PRESETS:
            parts, frames = PRESETS[name]
            backbone = _with_frames(config.backbone, name, frames)
        else:
            parts, backbone = ((name, BENCHMARKS[name].splits[0], ""),), config.backbone
        for benchmark, split, protocol in parts:
            spec = BENCHMARKS[benchmark]
            folder = spec.name
            if folder in runs:
                raise ConfigError(f"benchmark {folder!r} is given twice; pass it once")
            # A benchmark that draws its videos has no folder in ROOT, and takes none.
            root = None if not spec.needs_root or config.root is None else config.root / folder
            # All are loaded before the first one runs, which may take days: what is missing is reported now.
            loaded = benchmarks.load(
                benchmark, split=split, root=root, protocol=protocol, skip_broken=config.skip_broken
            )
            hears = name in PRESETS and loaded.protocol.subtitles != "none"
            runs[folder] = replace(
                config,
                benchmark=benchmark,
                split=split,
                protocol=protocol,
                root=root,
                output=config.output / folder,
                backbone=backbone,
                options=_with_transcripts(config) if hears else config.options,
            )
    return list(runs.values())


def _check_shared(config: InferConfig) -> None:
    """Raise ConfigError if a setting for a single benchmark is used with several."""
    # A split, or a question's id, means nothing in another benchmark.
    for name in ("split", "protocol", "annotations", "ids", "world_seed", "subtitle_track"):
        if getattr(config, name) not in (None, "", ()):
            raise ConfigError(
                f"--{name.replace('_', '-')}: applies to a single benchmark, but --benchmark "
                f"{config.benchmark} is several; leave it out, or pass one benchmark"
            )
    named = [part for name in config.benchmark.split(",") for part in _parts(name)]
    folders = [spec.name for spec in map(BENCHMARKS.__getitem__, named) if spec.needs_root]
    if config.root is None and folders:
        raise ConfigError(
            f"--benchmark {config.benchmark}: needs --root, a folder that contains {', '.join(folders)}"
        )


def _parts(name: str) -> list[str]:
    return [benchmark for benchmark, _, _ in PRESETS[name][0]] if name in PRESETS else [name]


def _with_frames(backbone: Mapping[str, Any], preset: str, frames: int) -> dict[str, Any]:
    if backbone.get("frames", frames) != frames:
        raise ConfigError(
            f"backbone frames is {backbone['frames']}, but preset {preset!r} uses {frames} frames per call; "
            "leave it out"
        )
    return {**backbone, "frames": frames}


# What makes a method read subtitles whose settings leave them out.
_READS: Mapping[str, Mapping[str, str]] = {
    "videoagent": {"subtitles": "listed"},
    "vca": {"subtitles": "listed"},
}


def _with_transcripts(config: InferConfig) -> dict[str, Any]:
    """The options of a benchmark preset: methods that search a video read the listed subtitles. Videos
    without any, such as LVBench's, are transcribed by this machine's Whisper model, as in the paper, if there
    is one and the options set nothing else. A direct answer uses frames alone, as the paper's baseline,
    unless the options add subtitles."""
    options = dict(config.options)
    # A method that cannot transcribe answers from what it has.
    if not methods.takes(config.method, "speech", "whisper"):
        return options
    if options.get("subtitles", "none" if config.method == "native" else None) == "none":
        return options
    return {"speech": "whisper", **_READS.get(config.method, {}), **options}
