"""How many of the project's files a question crosses on its way to its trace.

    python perf/crossings.py

Runs one question of the pocket test split, native and by a program of the shipped planner, and counts the
files in which a function of the project runs from the moment a worker looks for work until the trace is on
the disk. What runs inside the sandbox's own process is not counted. `core` leaves out the insides of the
model, the decoder, the sandbox and the modules' models, which a reader takes as given.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from videopro import benchmarks, methods
from videopro.backbones import load_backbone
from videopro.runner import WorkerJob, run_worker
from videopro.runs import RunFolder
from videopro.work import units

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("videopro", "modules", "train", "data_synthesis")
INSIDES = ("videopro/backbones/qwen/", "videopro/video/decoding/", "videopro/executor/", "modules/models/")
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "native": ({}, {}),
    "videopro": ({"temperature": 0.0}, {"adapter": "pocket-sft"}),
}


class _Silent:
    def answering(self, ids: Sequence[str]) -> None:
        """Nobody is told."""


def crossed(method: str) -> set[str]:
    """The files, relative to the checkout, that one question crosses by a method."""
    options, backbone_settings = SETTINGS[method]
    benchmark = benchmarks.load("pocket", split="test")
    items = benchmark.select(limit=1)
    if benchmark.fetch is not None:
        benchmark.fetch(items)
    backbone = load_backbone("pocket", **backbone_settings)
    files: set[str] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    with tempfile.TemporaryDirectory() as temporary:
        folder = RunFolder(Path(temporary) / "run")
        key = folder.open({}, {"crossings": method})
        job = WorkerJob(folder, key, tuple(units(items)), benchmark.protocol, 0)
        answering = methods.create(method, options)
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            run_worker(job, answering, backbone, _Silent())
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    backbone.close()
    paths = {Path(name).resolve() for name in files if name.endswith(".py")}
    inside = {str(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT)}
    return {name for name in inside if name.startswith(FOLDERS)}


def main() -> None:
    """Print the counts and the files as JSON."""
    for method in SETTINGS:
        files = crossed(method)
        core = sorted(name for name in files if not name.startswith(INSIDES))
        print(
            json.dumps(
                {"method": method, "files": len(files), "core": len(core), "core_files": core}, indent=1
            )
        )


if __name__ == "__main__":
    main()
