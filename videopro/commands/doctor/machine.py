"""The machine: processor, memory, GPUs, the sandbox."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from itertools import takewhile

from videopro import __version__
from videopro.commands.doctor.findings import Finding, size
from videopro.executor import sandbox_problem

_PATIENCE = 5.0


def machine() -> Iterator[Finding]:
    """Versions, processor, memory, GPUs, and whether programs can run. Imports no model library."""
    python = f"Python {platform.python_version()} in {sys.prefix}"
    yield Finding("machine", "videopro", "ok", f"{__version__}, {python}")
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    about = f"{cores} cores, {size(memory)} of memory"
    yield Finding("machine", "CPU", "ok", f"{platform.machine()}, {about}")
    yield from _gpus()
    problem = sandbox_problem()
    yield Finding(
        "machine",
        "sandbox",
        "broken" if problem else "ok",
        problem or "programs run confined: the self-test passed",
    )


def _gpus() -> Iterator[Finding]:
    torch = metadata.version("torch")
    gpus = nvidia_gpus()
    if not gpus:
        yield Finding("machine", "GPU", "missing", f"none that NVIDIA's driver shows (torch {torch})")
    for name in gpus:
        if "+cpu" in torch:
            text = f"{name}, but torch {torch} was built without CUDA: install torch for your GPU"
            yield Finding("machine", "GPU", "wrong", text)
        else:
            yield Finding("machine", "GPU", "ok", f"{name} (torch {torch})")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        yield Finding("machine", "CUDA_VISIBLE_DEVICES", "ok", visible or "empty: no GPU is used")


def nvidia_gpus() -> list[str]:
    """The GPUs by their driver's own tool, which takes a moment where torch takes seconds."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = ["--query-gpu=name,memory.total,memory.free", "--format=csv,noheader"]
    try:
        done = subprocess.run([tool, *query], capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
    return [f"{row[0]}, {row[1]}, {row[2]} free" for row in rows if len(row) == 3]


def visible_gpus() -> list[str]:
    """The GPUs that CUDA shows to this process, as CUDA_VISIBLE_DEVICES names them. The driver's tool lists
    those too that the variable hides."""
    present = len(nvidia_gpus())
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None or not present:
        return [str(number) for number in range(present)]

    def exists(name: str) -> bool:
        return name.startswith(("GPU-", "MIG-")) or (name.isdecimal() and int(name) < present)

    # As CUDA reads it: what follows a name that is none does not count.
    return list(takewhile(exists, (name.strip() for name in named.split(","))))
