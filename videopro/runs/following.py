"""Follow a run in progress: its traces when they are appended, and the headline so far. Read-only, so any
number of readers can follow a run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from videopro.benchmarks import Protocol
from videopro.errors import RunError
from videopro.runs.folder import RunFolder
from videopro.runs.summary import headline, headline_part
from videopro.traces import Trace, TraceLog


class RunTail:
    """The traces of a run, read incrementally. The run's log need not exist yet."""

    def __init__(self, folder: RunFolder, protocol: Protocol) -> None:
        self._folder = folder
        self._protocol = protocol
        self._log: TraceLog | None = None
        self.traces: dict[str, Trace] = {}
        """By question id, the latest last. Only `headline_part` is kept, to save memory with thousands of
        questions."""

    def refresh(self, most: int = sys.maxsize) -> list[Trace]:
        """Read the appended traces, of about `most` bytes, and return them in full. Raises RunError for an
        invalid log."""
        if self._log is None:
            if not self._folder.traces.exists():
                return []
            self._log = self._folder.log(writable=False)
        new = self._log.refresh(most)
        self._folder.set_aside.tell()
        for trace in new:
            # Taken out first: an answer that was made again comes last.
            self.traces.pop(trace.question_id, None)
            self.traces[trace.question_id] = headline_part(trace)
        return new

    def reread(self, question_id: str) -> Trace:
        """The trace in full of a question in `traces`, from the file."""
        assert self._log is not None
        return self._folder.with_video(self._log.reread(question_id))

    def headline(self) -> dict[str, Any]:
        """The headline of the traces so far."""
        return headline(list(self.traces.values()), self._protocol)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


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
        missing = "contains no run" if path.is_dir() else "no such folder"
        raise RunError(
            f"{path}: {missing}; pass the folder of a run of `videopro infer`, or a folder of several runs"
        )
    return inside


def _runs_inside(path: Path) -> Iterator[Path]:
    for name, folders, _ in os.walk(path):
        run = RunFolder(Path(name))
        if run.config.exists() and run.traces.exists():
            folders.clear()  # A run's own subfolders, such as the pages of the viewer, hold no further runs.
            yield run.path
