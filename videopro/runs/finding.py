"""Find the runs that paths name: a run's own folder, or one with several runs inside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from videopro.errors import RunError
from videopro.runs.folder import RunFolder


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders at `paths`, each once: a path itself, or the runs inside it in alphabetical order.

    A run that has no answers yet is found only at its own path. Raises RunError for a path without a run.
    """
    runs: dict[Path, Path] = {}
    for path in paths:
        for run in _runs_at(path):
            runs.setdefault(run.resolve(), run)
    return list(runs.values())


def _runs_at(path: Path) -> list[Path]:
    folder = RunFolder(path)
    if folder.config.exists() or folder.traces.exists():
        return [path]
    inside = sorted(_runs_inside(path))
    if not inside:
        missing = "" if path.is_dir() else ", as there is no such folder"
        raise RunError(
            f"{path}: contains no run{missing}; give the folder of a run of `videopro infer`, or a folder "
            "with several"
        )
    return inside


def _runs_inside(path: Path) -> Iterator[Path]:
    for name, folders, _ in os.walk(path):
        run = RunFolder(Path(name))
        if run.config.exists() and run.traces.exists():
            folders.clear()  # A run's own subfolders, such as the pages of the viewer, hold no further runs.
            yield run.path
