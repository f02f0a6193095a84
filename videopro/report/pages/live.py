"""`--live`: follow a run in the terminal: progress, accuracy, speed and the latest answers.

Only reads the run's log and lock, so the run is not affected.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from videopro.cli import read_yaml
from videopro.errors import RunError
from videopro.report.pages.content import state_of
from videopro.runs import RunFolder, RunTail, recorded_protocol
from videopro.traces import Trace
from videopro.traces.scoring import exclusions_text, percent

SECONDS = 1.0
"""Seconds between two reads of the log."""
PLAIN_SECONDS = 30.0
"""Seconds between two lines if the output is not a terminal."""
_LATEST = 8
# The rate is measured over the last minutes, so that loading the model does not distort the estimate.
_WINDOW = 300.0
_STYLES = {"right": "green", "wrong": "red", "unparsed": "yellow", "error": "yellow", "unscored": ""}


class SpeedMeter:
    """Questions done against time, over the last `_WINDOW` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """Record that `done` questions were done at `now` (s, of any monotonic clock)."""
        self._seen.append((now, done))
        while self._seen[-1][0] - self._seen[0][0] > _WINDOW:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Questions per second; None until one was done."""
        (began, before), (now, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now - began) if done > before and now > began else None


def watch_run(run: Path, console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the run until it is no longer running; if the output is not a terminal, print a line now and then.
    Waits for a run that has not started yet. Raises RunError if the folder is not a run folder."""
    folder = RunFolder(run)
    _wait_for(folder, console, sleep)
    tail = RunTail(folder, recorded_protocol(folder))
    settings = read_yaml(folder.config)
    pace = SpeedMeter()
    printed = -PLAIN_SECONDS
    numbers = None
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                # Checked first, so that everything appended before the run ended is read below.
                is_running = folder.is_running()
                if tail.refresh() or numbers is None:
                    numbers = tail.summary()
                now = time.monotonic()
                requested = set(folder.requested_ids()) or set(tail.traces)
                done = len(requested & tail.traces.keys())
                pace.note(now, done)
                status = _status_text(len(requested) - done, pace.rate, is_running)
                if console.is_terminal or not is_running:
                    latest = list(tail.traces.values())[-_LATEST:]
                    screen = render_screen(settings, numbers, done, len(requested), status, latest)
                    live.update(screen, refresh=True)
                elif now - printed >= PLAIN_SECONDS:
                    printed = now
                    line = f"{done}/{len(requested)}  accuracy {percent(numbers['accuracy'])} %  {status}"
                    print(line, file=console.file, flush=True)
                if not is_running:
                    return
                sleep(SECONDS)
    finally:
        tail.close()


def _wait_for(folder: RunFolder, console: Console, sleep: Callable[[float], None]) -> None:
    """Wait until the folder contains a run. Raises RunError if it contains anything else."""
    waited = False
    while not folder.config.exists():
        if folder.path.is_file() or folder.foreign_entry() is not None:
            raise RunError(f"{folder.path}: is not a run folder; pass one that `videopro infer` wrote")
        if not waited:
            print(f"waiting for a run in {folder.path}", file=console.file, flush=True)
            waited = True
        sleep(SECONDS)
    if waited:
        sleep(SECONDS)  # the run takes its lock after writing its settings


def _status_text(left: int, rate: float | None, is_running: bool) -> str:
    """The run's status in words; `rate` in questions per second."""
    if not is_running:
        return "finished" if left <= 0 else f"stopped with {left} left; re-run its command to resume"
    if rate is None:
        return "waiting for answers"
    speed = f"{rate:.2f} /s" if rate >= 0.1 else f"{60 * rate:.2f} /min"
    return f"{speed}, {timedelta(seconds=round(left / rate))} left"


def render_screen(
    settings: Mapping[str, Any],
    numbers: Mapping[str, Any],
    done: int,
    total: int,
    status: str,
    latest: Sequence[Trace],
) -> RenderableType:
    """The screen: `done` of the `total` questions of the running command, its numbers and latest answers."""
    about = "{method} on {benchmark} {split}, {model}".format(
        **{**settings, "split": settings["split"] or ""}
    )
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        Text(f"{done}/{total}", "bold"),
        ProgressBar(total=max(1, total), completed=done, width=36),
        Text(status, "dim"),
    )
    return Panel(
        Group(bar, Text(), _numbers(numbers), Text(), _latest(latest)),
        title=escape(about.replace(" ,", ",")),
        title_align="left",
        border_style="dim",
        padding=(1, 2),
    )


def _numbers(numbers: Mapping[str, Any]) -> RenderableType:
    grid = Table.grid(padding=(0, 3))
    interval = numbers["accuracy_ci95"]
    between = f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}" if interval else ""
    if numbers["left_out"]:
        between = f"{between}  left out: {exclusions_text(numbers['left_out'])}".strip()
    grid.add_row(
        Text("accuracy", "dim"), Text(f"{percent(numbers['accuracy'])} %", "bold"), Text(between, "dim")
    )
    modes = numbers["modes"]
    shares = [f"{name} {percent(modes[name])}" for name in ("native", "program", "refined", "fallback")]
    grid.add_row(Text("modes, %", "dim"), Text(shares[0] + "  " + shares[1]), Text("  ".join(shares[2:])))
    failures = [f"{kind} {count}" for kind, count in numbers["errors"].items()]
    unparsed = f"unparsed {percent(numbers['unparsed'])} %"
    grid.add_row(
        Text("failures", "dim"),
        Text(", ".join(failures) or "none", "yellow" if failures else ""),
        Text(f"{unparsed}, coverage {percent(numbers['coverage'])} %", "dim"),
    )
    return grid


def _latest(latest: Sequence[Trace]) -> RenderableType:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    grid.add_column(width=8)
    grid.add_column(no_wrap=True, ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    for trace in reversed(latest):
        state = state_of(trace)
        text = " ".join(trace.final.raw.split())[:20] if trace.final and not trace.choices else ""
        letter = (trace.final.letter if trace.final else None) or text or "-"
        sure = f"{trace.final.confidence:.2f}" if trace.final else trace.error.type if trace.error else ""
        question = " ".join(trace.question.split())
        grid.add_row(
            Text(state, _STYLES[state]), Text(question, overflow="ellipsis"), Text(letter), Text(sure, "dim")
        )
    return grid
