"""What a reproduction needs of this machine, looked at before its first stage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from videopro.cli import Need, check_key, check_needs, folder_problem, install, is_installed
from videopro.commands.doctor.findings import Finding, State, size
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Stage
from videopro.errors import ConfigError
from videopro.methods.planners import planner_needs

_PACKAGES = {
    "synthesize": (),
    "sft": (("train", "trl"),),
    "grpo": (("train", "trl"),),
    "rejection": (("train", "trl"),),
    "report": (("report", "matplotlib"),),
}
"""The extras of the stages' commands, each with a package of it."""
_ASKS = ("synthesize", "rejection", "prompts", "grpo", "infer")
"""The stages that load the backbone and the models behind the modules."""
_PREPARED = (("speech", "transcribe"), ("encoder", "index"))
"""Parts of the modules, and the stages that load them alone."""
_SPACE = 40e9
"""Bytes that a reproduction at the size of 8B writes beside videos and downloads: checkpoints of two
trainings with optimizer states (about 5 GB each), decoded frames (9.6 MB a video), a merged checkpoint
(17.5 GB)."""


def examine(road: Road, stages: Sequence[Stage], sizes: Mapping[str, object]) -> list[Finding]:
    """What is there and what is missing, for these stages."""
    kinds = {stage.kind for stage in stages}
    return [
        *_packages(kinds, road),
        *_gpus(road),
        *_disk(road),
        *_models(road, kinds),
        *_data(road, kinds, sizes),
        *_rows(road, kinds),
    ]


def _packages(kinds: set[str], road: Road) -> Iterator[Finding]:
    packages = dict.fromkeys(pair for kind in sorted(kinds) for pair in _PACKAGES.get(kind, ()))
    if road.config.accelerate.startswith("zero"):
        packages["deepspeed", "deepspeed"] = None
    for extra, package in packages:
        if is_installed(package):
            yield Finding("packages", package, "ok", metadata.version(package))
        else:
            yield Finding("packages", package, "broken", install(extra))


def _gpus(road: Road) -> Iterator[Finding]:
    gpus = road.config.gpus
    if gpus is not None and gpus > road.present:
        text = f"{road.present} of the {gpus} that gpus asks for"
        yield Finding("machine", "GPUs", "broken", text)
    elif road.gpus:
        yield Finding("machine", "GPUs", "ok", f"{road.gpus}, and {road.processes} processes")
    else:
        yield Finding("machine", "GPUs", "missing", f"none: {road.processes} processes on the CPU")


def _models(road: Road, kinds: set[str]) -> Iterator[Finding]:
    needs: list[Need] = []
    if kinds & {"download", *_ASKS, "sft", "merge"}:
        needs += road.backbone_needs()
    if kinds & {"download", *_ASKS}:
        needs += road.module_needs()
    else:
        needs += road.module_needs([part for part, kind in _PREPARED if kind in kinds])
    if "synthesize" in kinds and road.config.has_teacher:
        needs += _teacher(road)
    for need in dict.fromkeys(needs):
        problem = _problem(need).removeprefix(f"{need.subject}: ")
        state: State = "broken" if problem else "ok"
        yield Finding("models", need.subject, state, problem or need.hub or "here")


def _teacher(road: Road) -> list[Need]:
    settings = road.synthesis_settings()
    teacher = str(settings.get("teacher", ""))
    if not teacher.startswith("api:"):
        return []
    return list(planner_needs(teacher, settings.get("api_key_env")))


def _problem(need: Need) -> str:
    try:
        if need.key and not check_key(need.key):
            return f"the environment variable {need.key} has no key"
        check_needs([need])
    except ConfigError as error:
        return str(error)
    return ""


def _data(road: Road, kinds: set[str], sizes: Mapping[str, object]) -> Iterator[Finding]:
    if not kinds & {"check", "transcribe", "index", "synthesize", "prompts", "infer"}:
        return
    for part in road.benchmarks():
        root = road.root(part)
        size = sizes.get(part.folder)
        if root.is_dir():
            counted = getattr(size, "is_counted", False)
            state: State = "ok" if counted else "wrong"
            text = f"{root}: " + (
                f"{getattr(size, 'questions', 0):,} questions"
                if counted
                else f"its questions cannot be read: videopro benchmarks check {part.name} --root {root}"
            )
        elif "download" in kinds and road.is_downloaded(part.folder):
            state, text = "missing", f"{root}: downloaded from {road.config.downloads[part.folder]}"
        else:
            state, text = "broken", f"{root} does not exist: put the official files there"
        yield Finding("data", f"{part.folder} {part.split}", state, text)


def _rows(road: Road, kinds: set[str]) -> Iterator[Finding]:
    """Files of rows that were made elsewhere."""
    for kind, name in (("sft", road.config.sft_data), ("grpo", road.config.grpo_data)):
        if name and kind in kinds:
            is_file = Path(name).is_file()
            text = name if is_file else f"{name} is no file; give the file with the rows"
            yield Finding("data", f"rows for {kind}", "ok" if is_file else "broken", text)


def _disk(road: Road) -> Iterator[Finding]:
    above: Path = road.output
    while not above.exists() and above != above.parent:
        above = above.parent
    free = shutil.disk_usage(above).free
    if problem := folder_problem(road.output):
        yield Finding("machine", "disk", "broken", problem)
        return
    state: State = "ok" if free > _SPACE or not road.gpus else "wrong"
    about = f"about {size(_SPACE)} are written at the size of 8B" if road.gpus else ""
    yield Finding(
        "machine", "disk", state, f"{road.output}: {size(free)} free" + (f"; {about}" if about else "")
    )
