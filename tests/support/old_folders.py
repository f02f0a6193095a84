"""Folders as the version before left them; tests/support/old_runs/README.md says how they were made."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.support import ROOT
from videopro.benchmarks import load

OLD = ROOT / "tests" / "support" / "old_runs"


def unpack_synthesis(folder: Path) -> Path:
    """Two syntheses, of 4 and of 6 questions, with the videos where they are on this machine."""
    place = _unpack("synthesis", folder)
    world = load("pocket", split="train").items[0].video.parents[2]
    for path in place.rglob("*.jsonl"):
        path.write_text(path.read_text().replace("POCKET", str(world)))
    return place


def unpack_training(folder: Path) -> Path:
    """Runs of SFT, GRPO and inference, with their base, their adapters and a merged checkpoint."""
    return _unpack("training", folder)


def _unpack(name: str, folder: Path) -> Path:
    with tarfile.open(OLD / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name
