"""Folders as the version before left them; tests/support/old_runs/README.md says how they were made."""

from __future__ import annotations

import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.support import ROOT

OLD = ROOT / "tests" / "support" / "old_runs"


def unpack_training(folder: Path) -> Path:
    """Runs of SFT, GRPO and inference, with their base, their adapters and a merged checkpoint."""
    return _unpack("training", folder)


def _unpack(name: str, folder: Path) -> Path:
    extract(OLD / f"{name}.tar.xz", folder)
    return folder / name


def extract(archive: Path, folder: Path, among: Collection[str] = ()) -> None:
    """Unpack an archive of this repository, or of its top folders only those `among`. Python before 3.11.4
    (Debian 12's) has no filter, and needs none for files of our own."""
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as opened:
        wanted = [
            member
            for member in opened.getmembers()
            if not among or member.name.removeprefix("./").split("/")[0] in among
        ]
        opened.extractall(folder, members=wanted, **safely)
