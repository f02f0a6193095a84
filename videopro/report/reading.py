"""Reads the runs named on a command line, and gives them distinct names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from videopro.cli import read_yaml
from videopro.errors import ConfigError, RunError
from videopro.report.runs import METHOD_TITLES, DatasetKey, ReportRun
from videopro.runs import RunFolder, find_runs, read_grades, recorded_protocol, run_key

TITLES: Mapping[str, str] = {
    "longvideobench": "LongVideoBench",
    "videomme": "Video-MME",
    "lvbench": "LVBench",
    "mlvu": "MLVU",
    "cg_bench": "CG-Bench",
    "nextqa": "NExT-QA",
    "egoschema": "EgoSchema",
    "mmbench_video": "MMBench-Video",
    "charades_sta": "Charades-STA",
    "intentqa": "IntentQA",
    "mvbench": "MVBench",
    "nextqa_atp_hard": "NExT-QA ATP-hard",
    "tempcompass": "TempCompass",
    "videomme_v2": "Video-MME-v2",
}


def read_runs(arguments: Sequence[str], lengths: Sequence[str] = ()) -> list[ReportRun]:
    """The runs named by command-line arguments, each a folder or NAME=FOLDER; a folder of several runs adds
    all of them, in the paper's order of methods. `lengths`: those for the table of durations alone. Raises
    RunError or ConfigError."""
    runs: list[ReportRun] = []
    for position, argument in enumerate((*arguments, *lengths)):
        name, path = _split(argument)
        is_length = position >= len(arguments)
        group = [
            replace(read_run(folder), name=name, is_named=bool(name), is_length=is_length)
            for folder in find_runs([path])
        ]
        runs += sorted(group, key=lambda run: (bool(run.without), run.method_rank))
    paths = Counter(run.path.resolve() for run in runs)
    twice = [str(path) for path, count in paths.items() if count > 1]
    if twice:
        raise ConfigError(f"run {twice[0]} is given twice; pass each run once")
    return _named(_titled(runs))


def _split(argument: str) -> tuple[str, Path]:
    name, equals, path = argument.partition("=")
    # A folder with an equals sign in its name is a folder first.
    if not equals or Path(argument).exists():
        return "", Path(argument)
    if not name.strip() or not path:
        raise ConfigError(f"run {argument!r}: must be a folder or NAME=FOLDER")
    return name.strip(), Path(path)


def read_run(path: Path) -> ReportRun:
    """A run, not yet named. Raises RunError for a folder without a run, or a run without answers."""
    folder = RunFolder(path)
    protocol = recorded_protocol(folder)
    identity = folder.recorded_identity() or {}
    if not isinstance(identity.get("method"), dict) or "name" not in identity["method"]:
        raise RunError(f"{folder.config}: names no method; pass a run that `videopro infer` wrote")
    traces = folder.read() if folder.traces.exists() else []
    if not traces:
        raise RunError(f"{path}: no question is answered yet; finish the run first")
    protocol_identity = identity["protocol"]
    return ReportRun(
        path,
        identity,
        read_yaml(folder.config),
        protocol,
        tuple(traces),
        read_grades(folder.grades, protocol.judge),
        DatasetKey(
            str(protocol_identity.get("benchmark", "")),
            str(protocol_identity.get("split", "")),
            run_key(protocol_identity)[:8],
        ),
    )


def _titled(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The runs with dataset titles, which include the protocol if a benchmark appears with several."""
    kinds: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        names = kinds.setdefault((run.dataset.benchmark, run.dataset.split), {})
        names[run.dataset.protocol_hash] = run.protocol.name
    titled = []
    for run in runs:
        data = run.dataset
        title = f"{TITLES.get(data.benchmark, data.benchmark)} {data.split}".strip()
        protocols = kinds[data.benchmark, data.split]
        if len(protocols) > 1:
            # Hashes distinguish two protocols of one name.
            alike = list(protocols.values()).count(run.protocol.name) > 1
            title += f" ({data.protocol_hash if alike or not run.protocol.name else run.protocol.name})"
        titled.append(replace(run, dataset=replace(data, title=title)))
    return titled


def _named(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The runs with names that are distinct within each dataset. Raises ConfigError if that is impossible."""
    several = len({run.model for run in runs}) > 1 or len({run.dataset.benchmark for run in runs}) > 1

    def default_name(run: ReportRun) -> str:
        name = METHOD_TITLES.get(run.method, run.method)
        if several:
            name = run.model if run.method == "native" else f"{run.model} + {name}"
        alike = [other for other in runs if (other.model, other.method) == (run.model, run.method)]
        if len({other.planner for other in alike}) > 1:
            name += f" ({run.planner})"
        if len({other.preset for other in alike}) > 1:
            name += f" ({run.preset} settings)"
        if len({other.frames for other in alike}) > 1:
            name += f", {run.frames} frames"
        if len({other.limits for other in alike}) > 1:
            name += f", {run.budget}"
        return name + "".join(f" w/o {group}" for group in run.without)

    named = [run if run.is_named else replace(run, name=default_name(run)) for run in runs]
    counts = Counter((run.dataset, run.name) for run in named)
    named = [
        replace(run, name=f"{run.name} [{run.path.name}]")
        if counts[run.dataset, run.name] > 1 and not run.is_named
        else run
        for run in named
    ]
    for (data, name), count in Counter((run.dataset, run.name) for run in named).items():
        if count > 1:
            raise ConfigError(
                f"{count} runs on {data.title} have the same name {name!r}; name them with NAME=FOLDER "
                "(for runs of several seeds, use videopro seeds)"
            )
    return named
