"""Follows the exceptions that nobody foresaw while a run goes on: keeps the first traceback of each class,
and stops the run if one ends question after question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from videopro.errors import Streaks, WorkerBug
from videopro.storage import write_atomically
from videopro.traces import Trace


class ExceptionWatch:
    """Reads the traces that a command adds to the run in a folder."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for the tracebacks, such as `RunFolder.exceptions`."""
        self._folder = folder
        self._streaks = Streaks()

    def see(self, traces: Sequence[Trace], left: int) -> None:
        """More questions are done, and so many are `left`. Raises WorkerBug if the run should end before
        they are asked."""
        keep_tracebacks(self._folder, traces)
        for trace in traces:
            if trace.error is None:
                self._streaks.spare()
            # A video that cannot be read says nothing about it.
            elif trace.ended_by is not None and self._streaks.end(trace.ended_by, trace.video.key) and left:
                ends = trace.ended_by
                raise WorkerBug(
                    f"{ends.traceback}\nThe same exception ({ends.type} at {ends.place}) ended all questions "
                    f"about {self._streaks.videos} videos in a row. They are recorded; the same command goes "
                    "on with the others, and with --redo-errors asks again where no answer was had"
                )


def keep_tracebacks(folder: Path, traces: Iterable[Trace]) -> None:
    """Write the first traceback of each class of exception to a file of that name, unless it is there."""
    for trace in traces:
        for exception in trace.exceptions:
            path = traceback_file(folder, exception.type)
            # The first of a class only: thousands of equal tracebacks would fill the folder.
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                head = f"question {trace.question_id}, video {trace.video.path}, at {exception.place}"
                write_atomically(path, f"{head}\n\n{exception.traceback}")


def traceback_file(folder: Path, kind: str) -> Path:
    """The file with the first traceback of a class."""
    return folder / f"{re.sub(r'[^A-Za-z0-9_.]', '_', kind)[:100]}.txt"
