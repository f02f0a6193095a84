"""Progress of long work: a bar on a terminal, and plain lines elsewhere (a file, a job's log)."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Self, TypeVar

from rich import progress as bars
from rich.console import Console
from rich.text import Text

# Seconds between two plain lines.
PLAIN_SECONDS = 30.0

T = TypeVar("T")

TIMES = "VIDEOPRO_TIMES"
"""Names a file that gets a line at the start of long work and for each part of it that is done: [process,
seconds since 1970, parts done]. So a parent process learns what a part takes, apart from loading."""


def mark(done: int) -> None:
    """Add a line to the file that TIMES names, if it is set."""
    if path := os.environ.get(TIMES):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([os.getpid(), time.time(), done]) + "\n")


class PlainLines:
    """Prints a line with the time of day, the progress, the rate and the time left; at most one per
    PLAIN_SECONDS, and one at the end if there were others. `clock`: seconds, as time.monotonic."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._printed = 0
        self.start(0)

    def start(self, before: int) -> None:
        """Start the work; `before` of it was done earlier and does not count towards the rate."""
        self._before = before
        self._began = self._last = self._clock()
        self._marked = before
        mark(before)

    def say(
        self,
        doing: str,
        done: int,
        total: int | None,
        more: str = "",
        *,
        is_end: bool = False,
        unknown: str = "time left unknown",
    ) -> None:
        """Print the line if it is due. `unknown`: shown in place of an unknown time left."""
        if done != self._marked:
            self._marked = done
            mark(done)
        now = self._clock()
        # No last line for work that was over before its first one.
        is_due = self._printed > 0 if is_end else now - self._last >= PLAIN_SECONDS
        if not is_due:
            return
        self._last = now
        self._printed += 1
        took = now - self._began
        rate = (done - self._before) / took if took > 0 else 0.0
        parts = [f"{done:,}" if total is None else f"{done:,}/{total:,}", rate_text(rate)]
        if is_end:
            parts.append(f"took {_duration(took)}")
        elif total is not None:
            parts.append(f"{_duration((total - done) / rate)} left" if rate > 0 else unknown)
        line = f"{time.strftime('%H:%M:%S')} {doing}: {', '.join(filter(None, [*parts, more]))}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Counter:
    """Shows `done` of `total` while the context is open; safe to call from several threads.

    `total` None: not known yet. `visible` False: nothing is shown.
    """

    def __init__(
        self,
        doing: str,
        total: int | None = None,
        *,
        visible: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._doing = doing
        self._done = 0
        self._total = total
        self._console = Console(stderr=True, quiet=not visible)
        self._lines = PlainLines(self._console, clock)
        self._bars = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            RateColumn(),
            bars.TimeRemainingColumn(),
            console=self._console,
            # Elsewhere the plain lines say it; Rich would add its last bar to a log's end.
            disable=not self._console.is_terminal,
            transient=True,
        )
        self._task = self._bars.add_task(doing, total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After an error the last line would say that the work took so long, as if it were done.
        if kind is None and not self._console.is_terminal:
            self._lines.say(self._doing, self._done, self._total, is_end=True)
        self._bars.stop()

    def start(self, done: int) -> None:
        """Set how much was done earlier."""
        with self._lock:
            self._done = done
            self._lines.start(done)
            self._bars.reset(self._task, completed=done)

    def advance(self, count: int = 1) -> None:
        """Add to the progress."""
        with self._lock:
            self._show(self._done + count, self._total)

    def update(self, done: int, total: int | None) -> None:
        """Set the progress and the total."""
        with self._lock:
            self._show(done, total)

    def _show(self, done: int, total: int | None) -> None:
        self._done, self._total = done, total
        self._bars.update(self._task, completed=done, total=total)
        if not self._console.is_terminal:
            self._lines.say(self._doing, done, total)


def counted(parts: Iterable[T], doing: str, total: int | None = None) -> Iterator[T]:
    """Iterate over the parts with a `Counter`. `total`: their number, if they have no length."""
    with Counter(doing, len(parts) if isinstance(parts, Sized) else total) as counter:
        for part in parts:
            yield part
            counter.advance()


class RateColumn(bars.ProgressColumn):
    """The rate of a bar."""

    def render(self, task: bars.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("? /s" if speed is None else rate_text(speed))


def rate_text(rate: float) -> str:
    """A rate per second, or per minute if it is low; "" if there is none yet."""
    if rate <= 0:
        return ""
    return f"{rate:.2f} /s" if rate >= 0.1 else f"{60 * rate:.2f} /min"


def _duration(seconds: float) -> str:
    """As 0:42, 12:05 or 3:07:00."""
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds_left:02d}" if hours else f"{minutes}:{seconds_left:02d}"
