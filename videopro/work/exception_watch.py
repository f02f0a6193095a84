"""Follows the exceptions that nobody foresaw while a run goes on: keeps the first traceback of each class,
and stops the run if one goes on and on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from videopro.errors import ExceptionRecord, WorkerBug
from videopro.storage import write_atomically
from videopro.traces import Trace

STOP_AFTER_VIDEOS = 3
"""A run stops when one exception, of one class and from one place, has met questions about this many videos,
and most of the questions that were answered since it began."""


@dataclass
class _Streak:
    """The questions since an exception was first met."""

    met: int = 0
    spared: int = 0
    videos: set[str] = field(default_factory=set)


class Streaks:
    """Whether one exception goes on and on."""

    def __init__(self) -> None:
        self._streaks: dict[tuple[str, str], _Streak] = {}

    def add(self, exceptions: Iterable[ExceptionRecord], video: str) -> ExceptionRecord | None:
        """Count a question about a video, with what it met. The exception that should end the run, if any."""
        found = {exception.key: exception for exception in exceptions}
        for key in found:
            self._streaks.setdefault(key, _Streak())
        ends = None
        for key, streak in list(self._streaks.items()):
            if key in found:
                streak.met += 1
                streak.videos.add(video)
                if len(streak.videos) >= STOP_AFTER_VIDEOS and streak.met > streak.spared:
                    ends = found[key]
            else:
                streak.spared += 1
                if streak.spared > streak.met:
                    del self._streaks[key]
        return ends


class ExceptionWatch:
    """Reads the traces that a command adds to the run in a folder."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for the tracebacks, such as `RunFolder.exceptions`."""
        self._folder = folder
        self._streaks = Streaks()

    def see(self, trace: Trace) -> None:
        """Another question is done. Raises WorkerBug if the run should end."""
        keep_tracebacks(self._folder, [trace])
        ends = self._streaks.add(trace.exceptions, trace.video.key)
        if ends is not None:
            raise WorkerBug(
                f"{ends.traceback}\nThe same exception ({ends.type} at {ends.place}) met questions about "
                f"{STOP_AFTER_VIDEOS} videos and most of those answered since. They are recorded; the same "
                "command goes on with the others, and with --redo-errors asks again where no answer was had"
            )


def keep_tracebacks(folder: Path, traces: Iterable[Trace]) -> None:
    """Write the first traceback of each class of exception to a file of that name, unless it is there."""
    for trace in traces:
        for exception in trace.exceptions:
            path = traceback_file(folder, exception.type)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                head = f"question {trace.question_id}, video {trace.video.path}, at {exception.place}"
                write_atomically(path, f"{head}\n\n{exception.traceback}")


def traceback_file(folder: Path, kind: str) -> Path:
    """The file with the first traceback of a class."""
    return folder / f"{re.sub(r'[^A-Za-z0-9_.]', '_', kind)[:100]}.txt"
