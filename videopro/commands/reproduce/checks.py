"""Checks before the first stage what a reproduction needs on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import groupby
from pathlib import Path

from huggingface_hub import constants

from videopro.benchmarks import manifest
from videopro.cli import (
    Need,
    cache_root,
    check_key,
    check_needs,
    folder_problem,
    install,
    is_here,
    is_installed,
)
from videopro.commands.doctor import Finding, State, size
from videopro.commands.reproduce.hub import access, bytes_of, models, room
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Stage
from videopro.errors import ConfigError
from videopro.methods.planners import planner_needs
from videopro.storage import read_json_lines

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
_WITHOUT_GPUS = {"download", "check", "merge", "report"}
"""The stages that no GPU speeds up, such as those that the machine with a network does for others."""
_PREPARED = (("speech", "transcribe"), ("encoder", "index"))
"""Parts of the modules, and the stages that load them alone."""
_SPACE = 28e9
"""Bytes that a reproduction at the size of 8B writes into its output: checkpoints of two trainings with
optimizer states (about 5 GB each), a merged checkpoint (17.5 GB)."""
_CACHED = 12e9
"""Bytes that it writes into its cache: decoded frames (9.6 MB for each of CG-Bench's 1,219 videos)."""


def examine(road: Road, stages: Sequence[Stage]) -> list[Finding]:
    """What these stages need, and whether it is there."""
    kinds = {stage.kind for stage in stages}
    return [
        *_packages(kinds, road),
        *_gpus(road, kinds),
        *_disk(road, stages),
        *_models(road, kinds),
        *_gates(road, stages),
        *_data(road, kinds),
        *_rows(road, kinds),
    ]


def _packages(kinds: set[str], road: Road) -> Iterator[Finding]:
    packages = dict.fromkeys(pair for kind in sorted(kinds) for pair in _PACKAGES.get(kind, ()))
    if road.config.accelerate.startswith("zero"):
        packages["deepspeed", "deepspeed"] = None
    for extra, package in packages:
        there = is_installed(package)
        text = metadata.version(package) if there else install(extra)
        yield Finding("packages", package, "ok" if there else "broken", text)


def _gpus(road: Road, kinds: set[str]) -> Iterator[Finding]:
    state: State = "ok" if road.gpus else "missing"
    text = f"{road.gpus or 'none'}; {road.processes} processes"
    if road.gpus > road.present:
        state, text = "broken", f"{road.present} found, but gpus is {road.gpus}"
    if kinds - _WITHOUT_GPUS:
        yield Finding("machine", "GPUs", state, text)


def _models(road: Road, kinds: set[str]) -> Iterator[Finding]:
    needs: list[Need] = []
    if kinds & {"download", *_ASKS, "sft", "merge"}:
        needs += road.backbone_needs()
    if kinds & {"download", *_ASKS}:
        needs += road.module_needs()
    else:
        needs += road.module_needs([part for part, kind in _PREPARED if kind in kinds])
    teacher = road.synthesis_settings() if "synthesize" in kinds and road.config.has_teacher else {}
    if str(teacher.get("teacher", "")).startswith("api:"):
        needs += planner_needs(teacher["teacher"], teacher.get("api_key_env"))
    for need in dict.fromkeys(needs):
        problem = _problem(need).removeprefix(f"{need.subject}: ")
        state: State = "broken" if problem else "ok"
        yield Finding("models", need.subject, state, problem or need.hub or "found")


def _problem(need: Need) -> str:
    try:
        if need.key and not check_key(need.key):
            return f"the environment variable {need.key} is not set"
        check_needs([need])
    except ConfigError as error:
        return str(error)
    return ""


def _gates(road: Road, stages: Sequence[Stage]) -> Iterator[Finding]:
    """Whether the hub gives the files of gated repositories to this machine."""
    waiting = {stage.name for stage in stages}
    for part in road.benchmarks():
        for repository in part.repositories if f"download-{part.folder}" in waiting else ():
            if repository.gate is not None:
                yield Finding("data", repository.name, *access(repository))


def _data(road: Road, kinds: set[str]) -> Iterator[Finding]:
    if not kinds & {"check", "transcribe", "index", "synthesize", "prompts", "infer"}:
        return
    for part in road.benchmarks():
        root, size = road.root(part), road.size(part)
        comes = "download" in kinds and road.is_downloaded(part)
        state: State
        if root.is_dir() and size.is_counted:
            state, text = "ok", f"{root}: {size.questions:,} questions"
            if size.unanswered:
                state = "wrong"
                answers = " or ".join(manifest(part.name).paths(part.split, "answers")) or "the answers"
                text += f", {size.unanswered:,} of them without an answer; add {answers}"
        elif root.is_dir():
            check = f"videopro benchmarks check {part.name} --split {part.split} --root {root}"
            state, text = "wrong" if comes else "broken", f"{root}: its questions cannot be read; run {check}"
        elif comes:
            names = ", ".join(repository.name for repository in part.repositories)
            state, text = "missing", f"{root}: to be downloaded from {names}"
        else:
            state, text = "broken", f"{root}: does not exist; put the official files there"
        yield Finding("data", f"{part.folder} {part.split}", state, text)


def _rows(road: Road, kinds: set[str]) -> Iterator[Finding]:
    """Files of rows made elsewhere."""
    for kind, name in (("sft", road.config.sft_data), ("grpo", road.config.grpo_data)):
        if name and kind in kinds:
            yield Finding("data", f"rows for {kind}", *_rows_of(Path(name)))


def _rows_of(file: Path) -> tuple[State, str]:
    """Whether rows can be trained on: rows made elsewhere may name videos of another machine, and a teacher
    may be paid before the training reads them."""
    if not file.is_file():
        return "broken", f"{file}: is not a file; pass the file with the rows"
    videos = [
        record.get("videos") or record.get("video")
        for _, _, record in read_json_lines(file, "the file with the rows", left_out={})
    ]
    paths = [str(each[0] if isinstance(each, list) else each) for each in videos if each]
    absent = {path for path in set(paths) if not (file.parent / path).exists()}
    missing = [path for path in paths if path in absent]
    if not missing:
        return "ok", f"{file}: {len(videos):,} rows"
    text = f"the videos of {len(missing):,} of {len(videos):,} rows are missing, such as {missing[0]}"
    return "broken" if len(missing) == len(videos) else "wrong", f"{file}: {text}"


def _disk(road: Road, stages: Sequence[Stage]) -> Iterator[Finding]:
    """Whether each disk has room at the peak for what comes to what is there."""
    waiting = {stage.name for stage in stages}
    rooms = [(f"download-{part.folder}", *room(road, part)) for part in road.benchmarks()]
    data = sum(downloaded for name, downloaded, _ in rooms if name in waiting)
    if "check" in waiting:
        # One archive after another is unpacked.
        most = max if road.config.remove_archives else sum
        data += most([0.0, *(added for _, _, added in rooms)])
    writes = (_SPACE, _CACHED) if road.gpus else (0.0, 0.0)
    new_models = bytes_of(each for each in models(road) if not is_here(each.name))
    needs = [
        ("disk", road.output, writes[0], "outputs"),
        ("disk of the cache", cache_root(), writes[1], "the cache"),
        ("disk of the data", road.config.data, data, "benchmarks"),
        ("disk of the models", Path(constants.HF_HUB_CACHE), new_models, "models"),
    ]
    needs = [each for each in needs if each[2] or each[0] == "disk"]
    for _, shared in groupby(sorted(needs, key=lambda each: _device(each[1])), lambda each: _device(each[1])):
        own = sorted(shared, key=needs.index)
        name, folder, *_ = own[0]
        needed = sum(each[2] for each in own)
        parts = ", ".join(f"{size(each[2])} for {each[3]}" for each in own if each[2])
        text = f"; {size(needed)} needed at the peak ({parts})" if needed else ""
        problem, free = folder_problem(folder), shutil.disk_usage(_existing(folder)).free
        state: State = "broken" if problem else "ok" if free > needed else "wrong"
        yield Finding("machine", name, state, problem or f"{folder}: {size(free)} free{text}")


def _device(folder: Path) -> int:
    """The disk that a folder is on, or will be."""
    return _existing(folder).stat().st_dev


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(above for above in (folder.absolute(), *folder.absolute().parents) if above.exists())
