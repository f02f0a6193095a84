"""The progress of a run on the terminal: questions done, accuracy, speed and time left.

It reads the run's log, so it covers all workers of all ranks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from videopro.traces import TraceLog

# Seconds between two plain lines if no bar can be drawn (a file, a job's log).
PLAIN_SECONDS = 30.0


class Progress:
    """A bar over the questions `ids`; plain lines if the output is not a terminal, nothing unless `shown`.

    `doing` names the work; `note` returns more text for each update, such as the money spent.
    """

    def __init__(
        self,
        ids: Sequence[str],
        *,
        shown: bool = True,
        doing: str = "answering",
        note: Callable[[], str] = lambda: "",
    ) -> None:
        self._doing = doing
        self._note = note
        self._ids = set(ids)
        self._log: TraceLog | None = None
        self._right: dict[str, bool] = {}
        self._began = time.monotonic()
        self._before = 0
        self._last_line = self._began
        self._shown = shown
        self._console = Console(stderr=True, quiet=not shown)
        self._bars = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            _Rate(),
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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log is not None and kind is None:
            self.update()
        self._bars.stop()
        if self._log is not None:
            self._log.close()

    def watch(self, log: TraceLog) -> None:
        """Start following the log, and close it at the end. Questions already in it do not count towards the
        speed."""
        self._log = log
        self._before = self.update()
        self._began = time.monotonic()
        self._bars.reset(self._task, completed=self._before, description=self._doing)

    def update(self) -> int:
        """Read the log, redraw, and return how many of the questions are done."""
        if self._log is None:
            return 0
        for trace in self._log.refresh():
            if trace.question_id in self._ids and self._log.is_done(trace.question_id):
                letter = trace.final.letter if trace.final else None
                self._right[trace.question_id] = trace.is_right(letter)
        done = sum(self._log.is_done(question_id) for question_id in self._ids)
        right = f"right {100 * sum(self._right.values()) / len(self._right):.1f} %" if self._right else ""
        right = "  ".join(part for part in (right, self._note()) if part)
        self._bars.update(self._task, completed=done, right=right)
        if not self._console.is_terminal and time.monotonic() - self._last_line > PLAIN_SECONDS:
            self._last_line = time.monotonic()
            rate = (done - self._before) / (self._last_line - self._began)
            left = f"{(len(self._ids) - done) / rate:.0f} s left" if rate > 0 else "time left unknown"
            self._console.print(f"{done}/{len(self._ids)}  {rate:.2f} questions/s  {right}  {left}")
        return done


class _Rate(bars.ProgressColumn):
    def render(self, task: bars.Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("? /s")
        return Text(f"{speed:.2f} /s" if speed >= 0.1 else f"{60 * speed:.2f} /min")
