"""--live: what is shown of a run in progress, when it ends, and that watching does not affect the run."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.support import view_world as world
from videopro.report.pages.live import SpeedMeter, watch_run
from videopro.traces import TraceLog, read_traces


class Screen:
    """A terminal of 100 columns, and what is shown on it."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        look: dict[str, Any] = {"force_terminal": True, "color_system": None, "legacy_windows": False}
        self.console = Console(file=self._written, width=100, **look)

    @property
    def text(self) -> str:
        return self._written.getvalue()

    @property
    def last(self) -> str:
        return self.text.rpartition("╭")[2]


def watched(folder: Path) -> str:
    """What is shown of a run that has ended."""
    screen = Screen()
    watch_run(folder, screen.console, lambda seconds: pytest.fail("the run has ended"))
    return screen.text


def test_the_pace_is_that_of_the_last_minutes() -> None:
    pace = SpeedMeter()
    pace.note(0.0, 5)
    assert pace.rate is None, "earlier answers took none of the measured time"
    pace.note(100.0, 5)
    assert pace.rate is None
    pace.note(200.0, 25)
    assert pace.rate == pytest.approx(20 / 200)
    # Five minutes on, the slow beginning is forgotten: 30 questions since second 200.
    pace.note(450.0, 55)
    assert pace.rate == pytest.approx(30 / 250)


def test_a_run_is_followed_to_its_end(tmp_path: Path) -> None:
    some = world.traces(tmp_path / "videos")
    run = world.write_run(tmp_path / "run", some[:1])
    log = TraceLog(run.traces)
    looks: list[str] = []
    screen = Screen()
    left = list(some[1:4])
    with ExitStack() as holding:
        holding.enter_context(run.running([trace.question_id for trace in some]))

        def sleep(seconds: float) -> None:
            looks.append(screen.last)
            if left:
                log.append(left.pop(0))
            else:
                holding.close()

        watch_run(run.path, screen.console, sleep)
    log.close()
    assert [next(n for n in "123456" if f"{n}/6" in look) for look in looks] == ["1", "2", "3", "4"]
    assert ["What flies over the hill?" in look for look in looks[:3]] == [False, False, True]
    assert "waiting for answers" in looks[0]
    assert "left" in looks[3]
    # Of right, wrong, refined and unread, two are right. One began with a program, and was refined.
    for words in (
        "50.0 %",
        "stopped with 2 left",
        "unparsed 25.0 %",
        "native 75.0  program 25.0",
        "refined 25.0",
    ):
        assert words in screen.last
    assert len(read_traces(run.traces)) == 4


def test_failures_are_counted_and_a_finished_run_is_shown_at_once(tmp_path: Path) -> None:
    run = world.write_run(tmp_path / "run", world.traces(tmp_path / "videos"))
    text = watched(run.path)
    for words in ("6/6", "finished", "VideoError 1", "videopro on made test, none"):
        assert words in text
    run.traces.unlink()
    assert "0/0" in watched(run.path), "no answer yet"
    question = "Is [red]it[/blue] so?"  # No markup.
    trace = world.trace("q", world.VideoRef("v.mp4", "v"), question, *world.direct("A", 0.9))
    assert question in watched(world.write_run(tmp_path / "other", [trace]).path)


def test_a_run_whose_model_still_loads_is_waited_for(tmp_path: Path) -> None:
    some = world.traces(tmp_path / "videos")
    screen = Screen()
    (tmp_path / "run" / "work").mkdir(parents=True)
    looks = iter((lambda: None, lambda: world.write_run(tmp_path / "run", some[:2]), lambda: None))
    watch_run(tmp_path / "run", screen.console, lambda seconds: next(looks)())
    assert screen.text.startswith(f"waiting for a run in {tmp_path / 'run'}")
    assert "2/2" in screen.text


def test_ctrl_c_ends_only_the_live_view(tmp_path: Path) -> None:
    some = world.traces(tmp_path / "videos")
    run = world.write_run(tmp_path / "run", some[:2])
    with run.running([trace.question_id for trace in some]):
        before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
        looking = subprocess.Popen(
            [sys.executable, "-m", "videopro.report.pages", "--live", str(run.path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert looking.stdout is not None
        # One line without a terminal.
        assert looking.stdout.readline() == "2/6  accuracy 50.0 %  waiting for answers\n"
        looking.send_signal(signal.SIGINT)
        _, printed = looking.communicate(timeout=120)
        assert (looking.returncode, printed.strip()) == (130, "stopped following; the run continues")
        assert run.is_running()
        assert {path: path.read_bytes() for path in before} == before
