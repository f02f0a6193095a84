"""Folders: the caches with what they hold, the space on their disks, and the models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from videopro.backbones import MODELS
from videopro.cli import cache_root, folder_problem, is_here, is_hub_name
from videopro.commands.doctor.findings import Finding, State, size
from videopro.errors import VideoProError
from videopro.modules import PAPER, WHISPER
from videopro.modules.models.encoders import ENCODERS

_LITTLE = 2e9
"""Bytes free below which a disk is called full."""
_BACKBONES = ("Qwen/Qwen3-VL-2B-Instruct", "Qwen/Qwen3-VL-8B-Instruct")


def folders() -> Iterator[Finding]:
    """The caches."""
    yield _cache("VIDEOPRO_CACHE", cache_root(), is_needed=True)
    yield _cache("HF_HUB_CACHE", _hub(), is_needed=False)


def _cache(variable: str, folder: Path, *, is_needed: bool) -> Finding:
    problem = folder_problem(folder)
    failed: State = "broken" if is_needed else "wrong"
    if problem:
        return Finding("folders", variable, failed, f"{problem}; set {variable} to another folder")
    # The disk is that of the nearest folder that exists.
    above = folder
    while not above.exists():
        above = above.parent
    free = shutil.disk_usage(above).free
    content = f"{size(_bytes_in(folder))}, " if folder.is_dir() else "not there yet, "
    return Finding(
        "folders", variable, failed if free < _LITTLE else "ok", f"{folder}: {content}{size(free)} free"
    )


def _bytes_in(folder: Path) -> int:
    """Bytes of the files in a folder; a file with several names counts once."""
    counted: set[tuple[int, int]] = set()
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                status = os.lstat(os.path.join(where, name))
            except OSError:
                continue
            if (status.st_dev, status.st_ino) not in counted:
                counted.add((status.st_dev, status.st_ino))
                # What it takes on the disk, which is less for a sparse file. POSIX counts blocks of 512
                # bytes.
                total += status.st_blocks * 512
    return total


def _hub() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def models() -> Iterator[Finding]:
    """The models of plug-ins; those that settings and presets name, and the others of the hub's cache."""
    for own in MODELS.working():
        try:
            shipped = own.folder()
            text = (
                f"comes with its plug-in, {size(_bytes_in(shipped))}"
                if shipped
                else "a backbone of a plug-in"
            )
            yield Finding("models", own.name, "ok", text)
        except VideoProError as error:
            yield Finding("models", own.name, "broken", str(error))
    for problem in MODELS.broken():
        yield Finding("models", "a plug-in", "broken", problem)
    cached = _cached()
    named = {**dict.fromkeys(_BACKBONES, "--model"), **_of_modules()}
    for name, use in named.items():
        if is_here(name):
            yield Finding("models", name, "ok", f"{use}: here, {size(cached.get(name, 0))}")
        elif name in cached:
            text = f"{use}: incomplete ({size(cached[name])} are here); hf download {name}"
            yield Finding("models", name, "wrong", text)
        else:
            yield Finding("models", name, "missing", f"{use}: hf download {name}")
    for name in sorted(cached.keys() - named.keys()):
        text = "in the hub's cache" if is_here(name) else "in the hub's cache, without config or weights"
        yield Finding("models", name, "ok", f"{text}, {size(cached[name])}")


def _of_modules() -> dict[str, str]:
    kinds = [kind for kind in ENCODERS.working() if is_hub_name(kind.checkpoint)]
    uses = {kind.checkpoint: f"encoder={kind.name}" for kind in kinds}
    uses[PAPER["text_encoder"]] = "text_encoder"
    uses[PAPER["detector"].partition(":")[2]] = "detector"
    uses[WHISPER[0]] = "speech"
    return uses


def _cached() -> Mapping[str, int]:
    """Bytes of each model in the hub's cache, by name."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cache = scan_cache_dir(_hub())
    except (CacheNotFound, OSError, ValueError):
        return {}
    return {repo.repo_id: repo.size_on_disk for repo in cache.repos if repo.repo_type == "model"}
