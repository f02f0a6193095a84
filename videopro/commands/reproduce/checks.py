"""Checks before the first stage what a reproduction needs on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from huggingface_hub import constants

from videopro.benchmarks import manifest
from videopro.cli import (
    Need,
    cache_root,
    check_key,
    check_needs,
    existing_folder,
    folder_problem,
    is_here,
)
from videopro.commands.doctor import Finding, State, size
from videopro.commands.reproduce.estimates import Work
from videopro.commands.reproduce.hub import access, models, room
from videopro.commands.reproduce.pilot import read_pilot
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import FILES, STAGES, TRAININGS, Stage
from videopro.errors import ConfigError
from videopro.methods.planners import planner_needs
from videopro.modules import PAPER

_EXTRAS = {"trl": "train", "matplotlib": "report", "deepspeed": "deepspeed"}
"""Packages that only some stages need, and the extra that each is of."""


def examine(road: Road, stages: Sequence[Stage]) -> list[Finding]:
    """What these stages need, and whether it is there."""
    needed = {need for stage in stages for need in STAGES[stage.kind]["needs"]}
    needed |= {"deepspeed"} if road.config.accelerate.startswith("zero") else set()
    names = {stage.name for stage in stages}
    return [
        *(_gpus(road) if "gpus" in needed else ()),
        *_disk(road, names, [stage for stage in stages if stage.kind not in FILES]),
        *_needs(road, needed),
        *(_data(road, names) if "benchmarks" in needed else ()),
        *_rows(road, names),
    ]


def _gpus(road: Road) -> Iterator[Finding]:
    state: State = "ok" if road.gpus else "missing"
    text = f"{road.gpus or 'none'}; {road.processes} processes"
    if road.gpus > road.present:
        state, text = "broken", f"{road.present} found, but gpus is {road.gpus}"
    yield Finding("machine", "GPUs", state, text)


def _needs(road: Road, needed: set[str]) -> Iterator[Finding]:
    """The packages, the models, and the teacher's server and key."""
    packages = [Need(name, extra=extra, package=name) for name, extra in _EXTRAS.items() if name in needed]
    needs = road.backbone_needs() if "backbone" in needed else []
    needs += road.module_needs(PAPER if "modules" in needed else needed)
    asks = road.synthesis_settings() if "teacher" in needed else {}
    if asks.get("teacher"):
        needs += planner_needs(asks["teacher"], asks.get("api_key_env"))
    for need in dict.fromkeys([*packages, *needs]):
        problem = _problem(need).removeprefix(f"{need.subject}: ")
        section = "packages" if need in packages else "models"
        yield Finding(section, need.subject, "broken" if problem else "ok", problem or need.hub or "found")


def _problem(need: Need) -> str:
    try:
        if need.key and not check_key(need.key):
            return f"the environment variable {need.key} is not set"
        check_needs([need])
    except ConfigError as error:
        return str(error)
    return ""


def _data(road: Road, waiting: set[str]) -> Iterator[Finding]:
    """Access to what is to be downloaded; the questions of each benchmark, and whether they have answers."""
    for part in road.benchmarks():
        found, comes = road.size(part), f"download-{part.folder}" in waiting
        for repository in part.repositories if comes else ():
            if repository.gate is not None:
                yield Finding("data", repository.name, *access(repository))
        state: State = "wrong" if found.unanswered else "ok"
        text = f"{found.questions:,} questions"
        if found.unanswered:
            answers = " or ".join(manifest(part.name).paths(part.split, "answers")) or "the answers"
            text += f", {found.unanswered:,} of them without an answer; add {answers}"
        if not found.is_counted:
            state, text = "missing", "to be downloaded"
            if not comes:
                state, text = "broken", f"its questions cannot be read; run {part.check}"
        yield Finding("data", f"{part.folder} {part.split}", state, f"{part.root}: {text}")


def _rows(road: Road, waiting: set[str]) -> Iterator[Finding]:
    """Files of rows made elsewhere."""
    for kind in TRAININGS:
        name = getattr(road.config, f"{kind}_data")
        if name and kind in waiting:
            problem = "" if Path(name).is_file() else f"{name}: is not a file; pass the file with the rows"
            yield Finding("data", f"rows for {kind}", "broken" if problem else "ok", problem or name)


def _disk(road: Road, waiting: set[str], stages: Sequence[Stage]) -> Iterator[Finding]:
    """Whether each disk has room at the peak for what comes to what is there."""
    rooms = {f"download-{part.folder}": room(road, part) for part in road.benchmarks()}
    data = sum(downloaded for name, (downloaded, _) in rooms.items() if name in waiting)
    if "check" in waiting:
        # One archive after another is unpacked.
        at_once = max if road.config.remove_archives else sum
        data += at_once([0.0, *(added for _, added in rooms.values())])
    new = [each for each in models(road) if not is_here(each.name)]
    for each in new:
        if not each.files:
            yield Finding(
                "models", each.name, "missing", "to be downloaded; its size is not known, nor counted"
            )
    outputs, cache = Work(road, measured=read_pilot(road)).written(stages)
    needs = [
        ("disk", road.output, *outputs),
        ("disk of the cache", cache_root(), *cache),
        ("disk of the data", road.config.data, data, "benchmarks"),
        ("disk of the models", Path(constants.HF_HUB_CACHE), sum(each.bytes for each in new), "models"),
    ]
    needs = [each for each in needs if each[2] or each[0] == "disk"]
    for disk in dict.fromkeys(_device(each[1]) for each in needs):
        on_one = [each for each in needs if _device(each[1]) == disk]
        name, folder, *_ = on_one[0]
        needed = sum(each[2] for each in on_one)
        parts = ", ".join(f"{size(each[2])} for {each[3]}" for each in on_one if each[2])
        text = f"; {size(needed)} needed at the peak ({parts})" if needed else ""
        problem, free = folder_problem(folder), shutil.disk_usage(existing_folder(folder)).free
        state: State = "broken" if problem else "ok" if free > needed else "wrong"
        yield Finding("machine", name, state, problem or f"{folder}: {size(free)} free{text}")


def _device(folder: Path) -> int:
    """The disk that a folder is on, or will be."""
    return existing_folder(folder).stat().st_dev
