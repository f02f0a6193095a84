"""`--live`: a run in the terminal while it goes on: how far, how right, how fast, what came last.

Follows the run's log and its lock, and touches neither: a run neither knows nor minds who looks at it.
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

from videopro.errors import RunError
from videopro.runs import RunFolder, RunTail, recorded_protocol
from videopro.scoring import percent
from videopro.settings import read_yaml
from videopro.traces import Trace
from videopro.view.content import state_of

SECONDS = 1.0
"""Between two looks at the log."""
PLAIN_SECONDS = 30.0
"""Between two lines where there is no terminal."""
_LATEST = 8
# The rate is that of the last minutes: what a model took to load says nothing of what is left.
_WINDOW = 300.0
_STYLES = {"right": "green", "wrong": "red", "unparsed": "yellow", "error": "yellow", "unscored": ""}


class SpeedMeter:
    """Questions done against time, over the last `_WINDOW` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, done: int) -> None:
        """So many were done at `now` (s, of any steady clock)."""
        self._seen.append((now, done))
        while self._seen[-1][0] - self._seen[0][0] > _WINDOW:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Questions a second; None as long as none was seen to be done."""
        (began, before), (now, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now - began) if done > before and now > began else None


def watch_run(run: Path, console: Console, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the run until nobody answers its questions any more; where there is no terminal, a line now and
    then. A run that has not begun, since its model loads first, is waited for. Raises RunError for what is no
    run's folder."""
    folder = RunFolder(run)
    _wait_for(folder, console, sleep)
    following = RunTail(folder, recorded_protocol(folder))
    settings = read_yaml(folder.config)
    pace = SpeedMeter()
    told = -PLAIN_SECONDS
    numbers = None
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                # Asked first: what was appended before the run ended is then read below.
                goes_on = folder.is_running()
                if following.refresh() or numbers is None:
                    numbers = following.numbers()
                now = time.monotonic()
                asked = set(folder.requested_ids()) or set(following.traces)
                done = len(asked & following.traces.keys())
                pace.note(now, done)
                if console.is_terminal or not goes_on:
                    latest = list(following.traces.values())[-_LATEST:]
                    how = _status_text(len(asked) - done, pace.rate, goes_on)
                    live.update(render_screen(settings, numbers, done, len(asked), how, latest), refresh=True)
                elif now - told >= PLAIN_SECONDS:
                    told = now
                    how = _status_text(len(asked) - done, pace.rate, goes_on)
                    accuracy = percent(numbers["accuracy"])
                    print(f"{done}/{len(asked)}  accuracy {accuracy} %  {how}", file=console.file, flush=True)
                if not goes_on:
                    return
                sleep(SECONDS)
    finally:
        following.close()


def _wait_for(folder: RunFolder, console: Console, sleep: Callable[[float], None]) -> None:
    """Until the folder holds a run. Raises RunError if it holds anything else."""
    told = False
    while not folder.config.exists():
        if folder.path.is_file() or folder.foreign() is not None:
            raise RunError(f"{folder.path}: is no run's folder; give one that videopro.infer made")
        if not told:
            print(f"waiting for a run in {folder.path}", file=console.file, flush=True)
            told = True
        sleep(SECONDS)
    if told:
        sleep(SECONDS)  # what says that the run goes on follows its settings


def _status_text(left: int, rate: float | None, goes_on: bool) -> str:
    """How it stands; `rate` in questions a second."""
    if not goes_on:
        return "finished" if left <= 0 else f"stopped with {left} left; the same command goes on"
    if rate is None:
        return "waiting for answers"
    speed = f"{rate:.2f} /s" if rate >= 0.1 else f"{60 * rate:.2f} /min"
    return f"{speed}, {timedelta(seconds=round(left / rate))} left"


def render_screen(
    settings: Mapping[str, Any],
    numbers: Mapping[str, Any],
    done: int,
    total: int,
    told: str,
    latest: Sequence[Trace],
) -> RenderableType:
    """What is shown. `done` of the `total` questions that the running command is to answer."""
    about = "{method} on {benchmark} {split}, {model}".format(
        **{**settings, "split": settings["split"] or ""}
    )
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        Text(f"{done}/{total}", "bold"),
        ProgressBar(total=max(1, total), completed=done, width=36),
        Text(told, "dim"),
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
        letter = (trace.final.letter if trace.final else None) or "-"
        sure = f"{trace.final.confidence:.2f}" if trace.final else trace.error.type if trace.error else ""
        question = " ".join(trace.question.split())
        grid.add_row(
            Text(state, _STYLES[state]), Text(question, overflow="ellipsis"), Text(letter), Text(sure, "dim")
        )
    return grid
