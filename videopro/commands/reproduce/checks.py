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
    existing_folder,
    folder_problem,
    install,
    is_here,
    is_installed,
)
from videopro.commands.doctor import Finding, State, size
from videopro.commands.reproduce.estimates import Work
from videopro.commands.reproduce.hub import access, models, room
from videopro.commands.reproduce.parts import Part, Size
from videopro.commands.reproduce.pilot import read_pilot
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import STAGES, TRAININGS, Stage
from videopro.errors import ConfigError
from videopro.methods.planners import planner_needs
from videopro.modules import PAPER
from videopro.storage import read_json_lines

_EXTRAS = {"trl": "train", "matplotlib": "report", "deepspeed": "deepspeed"}
"""Packages that only some stages need, and the extra that each is of."""


def examine(road: Road, stages: Sequence[Stage]) -> list[Finding]:
    """What these stages need, and whether it is there."""
    needed = {need for stage in stages for need in STAGES[stage.kind]["needs"]}
    names = {stage.name for stage in stages}
    return [
        *_packages(needed | ({"deepspeed"} if road.config.accelerate.startswith("zero") else set())),
        *(_gpus(road) if "gpus" in needed else ()),
        *_disk(road, stages),
        *_models(road, needed),
        *_gates(road, names),
        *(_data(road, names) if "benchmarks" in needed else ()),
        *_rows(road, names),
    ]


def _packages(needed: set[str]) -> Iterator[Finding]:
    for package in [package for package in _EXTRAS if package in needed]:
        there = is_installed(package)
        text = metadata.version(package) if there else install(_EXTRAS[package])
        yield Finding("packages", package, "ok" if there else "broken", text)


def _gpus(road: Road) -> Iterator[Finding]:
    state: State = "ok" if road.gpus else "missing"
    text = f"{road.gpus or 'none'}; {road.processes} processes"
    if road.gpus > road.present:
        state, text = "broken", f"{road.present} found, but gpus is {road.gpus}"
    yield Finding("machine", "GPUs", state, text)


def _models(road: Road, needed: set[str]) -> Iterator[Finding]:
    needs = road.backbone_needs() if "backbone" in needed else []
    needs += road.module_needs(PAPER if "modules" in needed else needed)
    teacher = road.synthesis_settings() if "teacher" in needed and road.config.has_teacher else {}
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


def _gates(road: Road, waiting: set[str]) -> Iterator[Finding]:
    """Whether the hub gives the files of gated repositories to this machine."""
    for part in road.benchmarks():
        for repository in part.repositories if f"download-{part.folder}" in waiting else ():
            if repository.gate is not None:
                yield Finding("data", repository.name, *access(repository))


def _data(road: Road, waiting: set[str]) -> Iterator[Finding]:
    """The questions of each benchmark, and whether they have answers."""
    for part in road.benchmarks():
        comes = f"download-{part.folder}" in waiting and part.is_downloaded
        state, text = _questions(part, road.size(part), comes)
        yield Finding("data", f"{part.folder} {part.split}", state, f"{part.root}: {text}")


def _questions(part: Part, found: Size, comes: bool) -> tuple[State, str]:
    if not part.root.is_dir():
        names = ", ".join(repository.name for repository in part.repositories)
        if comes:
            return "missing", f"to be downloaded from {names}"
        return "broken", "does not exist; put the official files there"
    if not found.is_counted:
        check = f"videopro benchmarks check {part.name} --split {part.split} --root {part.root}"
        return "wrong" if comes else "broken", f"its questions cannot be read; run {check}"
    text = f"{found.questions:,} questions"
    if not found.unanswered:
        return "ok", text
    answers = " or ".join(manifest(part.name).paths(part.split, "answers")) or "the answers"
    return "wrong", f"{text}, {found.unanswered:,} of them without an answer; add {answers}"


def _rows(road: Road, waiting: set[str]) -> Iterator[Finding]:
    """Files of rows made elsewhere."""
    for kind in TRAININGS:
        name = getattr(road.config, f"{kind}_data")
        if name and kind in waiting:
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
    waiting, measured = {stage.name for stage in stages}, read_pilot(road)
    rooms = [(f"download-{part.folder}", *room(road, part)) for part in road.benchmarks()]
    data = sum(downloaded for name, downloaded, _ in rooms if name in waiting)
    if "check" in waiting:
        # One archive after another is unpacked.
        at_once = max if road.config.remove_archives else sum
        data += at_once([0.0, *(added for _, _, added in rooms)])
    new_models = sum(each.bytes for each in models(road) if not is_here(each.name))
    needs = [
        ("disk of the data", road.config.data, data, "benchmarks"),
        ("disk of the models", Path(constants.HF_HUB_CACHE), new_models, "models"),
    ]
    written, basis = Work(road, measured=measured).gigabytes_written(stages)
    for name, folder, kind in (
        ("disk", road.output, "outputs"),
        ("disk of the cache", cache_root(), "cache"),
    ):
        least, expected, most = (each * 1e9 for each in written.get(kind, (0.0, 0.0, 0.0)))
        known = f"by a pilot of {measured.rows} rows" if basis == "here" else f"{size(least)} to {size(most)}"
        needs.append((name, folder, expected, f"{kind} ({known})"))
    needs = [each for each in needs if each[2] or each[0] == "disk"]
    for _, shared in groupby(sorted(needs, key=lambda each: _device(each[1])), lambda each: _device(each[1])):
        on_one = sorted(shared)
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
