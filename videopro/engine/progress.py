"""The progress of a run on the terminal: questions done, accuracy, speed and time left; and unexpected
exceptions, of which the first traceback of each class is kept.

It reads the run's log, so it covers all workers of all ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from rich import progress as bars
from rich.console import Console

from videopro.cli import PlainLines, RateColumn
from videopro.errors import Streaks, WorkerBug
from videopro.storage import write_atomically
from videopro.traces import Trace, TraceLog


class Progress:
    """A bar over the questions `ids`; plain lines if the output is not a terminal, nothing unless `visible`.

    `doing` names the work; `note` returns more text for each update, such as the money spent; `seen` is
    called with the traces that are added while it watches, and with the number of questions left; `now`
    returns what is being done, which is shown until the first answer comes.
    """

    def __init__(
        self,
        ids: Sequence[str],
        *,
        visible: bool = True,
        doing: str = "answering",
        note: Callable[[], str] = lambda: "",
        seen: Callable[[Sequence[Trace], int], None] = lambda traces, left: None,
        now: Callable[[], str] = lambda: "",
    ) -> None:
        self._now = now
        self._doing = doing
        self._note = note
        self._seen = seen
        self._ids = set(ids)
        self._log: TraceLog | None = None
        self._is_watching = False
        self._before = 0
        self._right: dict[str, bool] = {}
        self._console = Console(stderr=True, quiet=not visible)
        self._lines = PlainLines(self._console)
        self._bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            RateColumn(),
            bars.TextColumn("{task.fields[right]}"),
            bars.TimeElapsedColumn(),
            bars.TextColumn("left"),
            bars.TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bars.add_task("loading the model", total=len(self._ids), right="")

    def __enter__(self) -> Self:
        self._bars.start()
        if not self._console.is_terminal:
            self._console.print("loading the model ...")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if self._log is not None and kind is None:
                self.update(is_end=True)
        finally:
            self._bars.stop()
            if self._log is not None:
                self._log.close()

    def watch(self, log: TraceLog) -> None:
        """Start following the log, and close it at the end. Questions already in it do not count towards the
        speed."""
        self._log = log
        self._lines.start(0)  # Nothing of the work is due yet, however long the model took.
        before = self.update()
        self._is_watching = True
        self._lines.start(before)
        self._before = before
        left = len(self._ids) - before
        if left and not self._console.is_terminal:
            self._console.print(f"{self._doing} {left:,} question{'s' if left != 1 else ''} ...")
        self._bars.reset(self._task, completed=before, description=self._doing)

    def update(self, *, is_end: bool = False) -> int:
        """Read the log, redraw, and return how many of the questions are done."""
        if self._log is None:
            return 0
        new = self._log.refresh()
        for trace in new:
            # An open question is neither right nor wrong.
            is_scored = trace.reference is None
            if is_scored and trace.question_id in self._ids and self._log.is_done(trace.question_id):
                letter = trace.final.letter if trace.final else None
                self._right[trace.question_id] = trace.is_right(letter)
        # Counted over the run's questions: the log may hold those of another selection too.
        done = sum(self._log.is_done(question_id) for question_id in self._ids)
        right = f"right {100 * sum(self._right.values()) / len(self._right):.1f} %" if self._right else ""
        right = "  ".join(part for part in (right, self._note()) if part)
        # Only until the first answer: from then on the rate says more than what the workers are at.
        waiting = self._now() if self._is_watching and done == self._before else ""
        doing = waiting or self._doing
        self._bars.update(self._task, completed=done, right=right, description=doing)
        if not self._console.is_terminal:
            unknown = "no answer yet" if waiting else "time left unknown"
            self._lines.say(doing, done, len(self._ids), right, is_end=is_end, unknown=unknown)
        if self._is_watching and new:
            self._seen(new, len(self._ids) - done)
        return done


class ExceptionWatch:
    """Reads the traces that a command adds to the run in a folder."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for the tracebacks, such as `RunFolder.exceptions`."""
        self._folder = folder
        self._streaks = Streaks()

    def see(self, traces: Sequence[Trace], left: int) -> None:
        """More questions are done, and `left` questions remain. Raises WorkerBug if the run should end before
        they are asked."""
        keep_tracebacks(self._folder, traces)
        for trace in traces:
            if trace.error is None:
                self._streaks.spare()
            # A video that cannot be read says nothing about it.
            elif trace.ended_by is not None and self._streaks.end(trace.ended_by, trace.video.key) and left:
                ends = trace.ended_by
                raise WorkerBug(
                    f"{ends.traceback}\nThe same exception ({ends.type} at {ends.place}) failed all "
                    f"questions about {self._streaks.videos} videos in a row. They are recorded; re-run the "
                    "same command to continue with the others, or add --redo-errors to retry these"
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
