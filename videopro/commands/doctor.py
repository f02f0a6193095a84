"""videopro doctor: show what a run would use on this machine, and what is missing or broken.

    videopro doctor
    videopro doctor --json

It makes no connection, loads no model and shows no key. Exit status: 0, or 2 if something that every run
needs is broken.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Literal, TypeAlias

from huggingface_hub import constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound
from rich.console import Console
from rich.table import Table
from rich.text import Text

from videopro import __version__
from videopro.backbones import MODELS
from videopro.cli import (
    CERTIFICATES,
    CommandLine,
    cache_root,
    certificates_problem,
    existing_folder,
    exit_status,
    folder_problem,
    install,
    is_here,
    is_hub_name,
    key_problem,
    option,
    proxies,
    wandb_problem,
)
from videopro.errors import VideoProError
from videopro.executor import sandbox_problem
from videopro.modules import PAPER, WHISPER
from videopro.modules.models.encoders import ENCODERS

State: TypeAlias = Literal["ok", "missing", "wrong", "broken"]
"""ok; missing: only some runs need it; wrong: runs that use it fail; broken: no run works."""

_LITTLE = 2e9
"""Bytes free below which a disk is called full: the pocket world with its indexes takes less than 1 GB."""
_BACKBONES = ("Qwen/Qwen3-VL-2B-Instruct", "Qwen/Qwen3-VL-8B-Instruct")
_KEYS = ("OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY")
_DEVELOPMENT = ("test", "docs", "perf")
"""Extras for working on this package."""
_COLOURS = {"ok": "green", "missing": "dim", "wrong": "yellow", "broken": "bold red"}


@dataclass(frozen=True)
class Finding:
    """A line of the report."""

    section: str
    name: str
    state: State
    text: str


@dataclass(frozen=True)
class DoctorConfig:
    """The settings of `videopro doctor`."""

    json: bool = option(False, "print the findings as JSON")


COMMAND = CommandLine("doctor", DoctorConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 if something that every run needs is broken."""
    with exit_status(stopped="stopped") as status:
        config = COMMAND.parse(argv)
        findings = [*machine(), *folders(), *connections(), *models(), *packages()]
        broken = [each for each in findings if each.state == "broken"]
        if config.json:
            about = {"ok": not broken, "findings": [asdict(each) for each in findings]}
            print(json.dumps(about, indent=1, ensure_ascii=False))
        else:
            show(findings)
            for each in broken:
                print(f"broken: {each.name}: {each.text}", file=sys.stderr)
        status.code = 2 if broken else 0
    return status.code


def show(findings: Sequence[Finding]) -> None:
    """Print the findings as tables, one per section."""
    console = Console()
    for section in dict.fromkeys(each.section for each in findings):
        table = Table(title=section, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(overflow="fold")
        for each in findings:
            if each.section == section:
                # As plain text: a name may contain what rich reads as markup.
                table.add_row(Text(each.state, _COLOURS[each.state]), Text(each.name), Text(each.text))
        console.print(table)
        console.print()


def size(bytes_: float) -> str:
    """A number of bytes as text: 512 MB, 1.5 GB."""
    return f"{bytes_ / 1e9:,.1f} GB" if bytes_ >= 1e9 else f"{round(bytes_ / 1e6):,} MB"


# ---- the machine -------------------------------------------------------------------------------------------


def machine() -> Iterator[Finding]:
    """Versions, processor, memory, GPUs, and whether programs can run. Imports no model library."""
    python = f"Python {platform.python_version()} in {sys.prefix}"
    yield Finding("machine", "videopro", "ok", f"{__version__}, {python}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    about = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, {size(memory)} of memory"
    yield Finding("machine", "CPU", "ok", about)
    yield from _gpus()
    problem = sandbox_problem()
    passed = "the sandbox works: the self-test passed"
    yield Finding("machine", "sandbox", "broken" if problem else "ok", problem or passed)


def _gpus() -> Iterator[Finding]:
    torch, gpus = metadata.version("torch"), nvidia_gpus()
    if not gpus:
        yield Finding("machine", "GPU", "missing", f"none found by the NVIDIA driver (torch {torch})")
    for name in gpus:
        if "+cpu" in torch:
            text = f"{name}, but torch {torch} was built without CUDA; install torch for your GPU"
            yield Finding("machine", "GPU", "wrong", text)
        else:
            yield Finding("machine", "GPU", "ok", f"{name} (torch {torch})")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        yield Finding("machine", "CUDA_VISIBLE_DEVICES", "ok", visible or "empty; no GPU is used")


def nvidia_gpus() -> list[str]:
    """The GPUs as nvidia-smi lists them, which is faster than importing torch."""
    asks = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader"]
    try:
        found = subprocess.run(asks, capture_output=True, text=True, timeout=5, check=True).stdout
    # No such tool, no driver, or one that hangs.
    except (OSError, subprocess.SubprocessError):
        return []
    return [f"{line.strip()} free" for line in found.splitlines() if line.count(",") == 2]


def visible_gpus() -> list[str]:
    """The GPUs that CUDA shows to this process, as CUDA_VISIBLE_DEVICES names them. nvidia-smi also
    lists GPUs that the variable hides."""
    present = len(nvidia_gpus())
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None or not present:
        return [str(number) for number in range(present)]

    def exists(name: str) -> bool:
        return name.startswith(("GPU-", "MIG-")) or (name.isdecimal() and int(name) < present)

    # As CUDA reads it: what follows a name that is none does not count.
    return list(takewhile(exists, (name.strip() for name in named.split(","))))


# ---- folders and connections -------------------------------------------------------------------------------


def folders() -> Iterator[Finding]:
    """The caches with their sizes, and the free space on their disks."""
    hub = Path(constants.HF_HUB_CACHE)
    caches: list[tuple[str, Path, State]] = [
        ("VIDEOPRO_CACHE", cache_root(), "broken"),
        ("HF_HUB_CACHE", hub, "wrong"),
    ]
    for variable, folder, failed in caches:
        if problem := folder_problem(folder):
            yield Finding("folders", variable, failed, f"{problem}; set {variable} to another folder")
            continue
        free = shutil.disk_usage(existing_folder(folder)).free
        content = size(bytes_in(folder)) if folder.is_dir() else "not created yet"
        # A full disk is as good as none.
        state: State = failed if free < _LITTLE else "ok"
        yield Finding("folders", variable, state, f"{folder}: {content}, {size(free)} free")


def bytes_in(folder: Path) -> int:
    """Bytes of the files in a folder."""
    # The hub's cache has links to its files.
    paths = (Path(where, name) for where, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in paths if not path.is_symlink() and path.exists())


def connections() -> Iterator[Finding]:
    """Proxies, certificates, and the names of keys; no part of a key's value is ever shown."""
    for proxy in proxies():
        text = f"{proxy.address}: {proxy.problem}" if proxy.problem else proxy.address
        yield Finding("connections", proxy.variable, "wrong" if proxy.problem else "ok", text)
    if not proxies():
        yield Finding("connections", "proxy", "ok", "none")
    if name := next((name for name in CERTIFICATES if os.environ.get(name)), None):
        problem = certificates_problem()
        yield Finding("connections", name, "wrong" if problem else "ok", problem or os.environ[name])
    for name in ("NO_PROXY", "no_proxy", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        if os.environ.get(name):
            # Without a user and password before the host.
            yield Finding("connections", name, "ok", os.environ[name].rpartition("@")[2])
    named = sorted(name for name in os.environ if name.endswith(("_KEY", "_TOKEN")))
    for name in dict.fromkeys((*_KEYS, *named)):
        if key := os.environ.get(name):
            problem = key_problem(key)
            yield Finding("keys", name, "wrong" if problem else "ok", problem or "set")
    if not os.environ.get("WANDB_API_KEY"):
        problem = wandb_problem()
        yield Finding("keys", "wandb", "missing" if problem else "ok", problem or "logged in, or offline")


# ---- models and packages -----------------------------------------------------------------------------------


def models() -> Iterator[Finding]:
    """The models of plug-ins, those that settings and presets name, and others in the hub's cache."""
    for own in MODELS.working():
        try:
            shipped = own.folder()
            about = (
                f"shipped with its plug-in, {size(bytes_in(shipped))}" if shipped else "a plug-in's backbone"
            )
            yield Finding("models", own.name, "ok", about)
        except VideoProError as error:
            yield Finding("models", own.name, "broken", str(error))
    for problem in MODELS.broken():
        yield Finding("models", "a plug-in", "broken", problem)
    try:
        repos = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except (CacheNotFound, OSError, ValueError):
        repos = frozenset()
    cached = {repo.repo_id: repo.size_on_disk for repo in repos if repo.repo_type == "model"}
    uses = dict.fromkeys(_BACKBONES, "--model")
    kinds = [kind for kind in ENCODERS.working() if is_hub_name(kind.checkpoint)]
    uses |= {kind.checkpoint: f"encoder={kind.name}" for kind in kinds}
    uses |= {PAPER["text_encoder"]: "text_encoder", PAPER["detector"].partition(":")[2]: "detector"}
    uses |= {WHISPER[0]: "speech"}
    for name in (*uses, *sorted(cached.keys() - uses.keys())):
        use, takes = uses.get(name, "in the hub's cache"), size(cached.get(name, 0))
        if is_here(name):
            yield Finding("models", name, "ok", f"{use}: downloaded, {takes}")
        elif name in cached:
            text = f"{use}: incomplete ({takes} downloaded); run hf download {name}"
            yield Finding("models", name, "wrong", text)
        else:
            yield Finding("models", name, "missing", f"{use}: not downloaded; run hf download {name}")


def packages() -> Iterator[Finding]:
    """Which extras are complete, with versions, and which packages the others lack."""
    by_extra: dict[str, list[str]] = {}
    for line in _required():
        of_extra, name = re.search(r"""extra\s*==\s*["']([^"']+)""", line), re.match(r"[\w.-]+", line)
        if name is not None:
            by_extra.setdefault(of_extra[1] if of_extra else "", []).append(name[0])
    for extra, names in by_extra.items():
        versions = {name: _version(name) for name in names}
        absent = ", ".join(name for name, version in versions.items() if version is None)
        if extra == "" and absent:
            text = f"{absent} missing; run pip install {absent.replace(', ', ' ')}"
            yield Finding("packages", "videopro", "broken", text)
        elif extra not in ("", *_DEVELOPMENT):
            text = ", ".join(f"{name} {version}" for name, version in versions.items())
            missing = f"without {absent}: {install(extra)}"
            yield Finding("packages", extra, "missing" if absent else "ok", missing if absent else text)


def _required() -> list[str]:
    try:
        return metadata.requires("videopro") or []
    except metadata.PackageNotFoundError:
        return []


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
