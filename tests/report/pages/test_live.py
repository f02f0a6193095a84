"""--live: what is shown of a run in progress, when it ends, and that watching does not affect the run."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console

from tests.support import view_world as world
from tests.support.fakes import make_benchmark
from tests.support.infer_world import finish, lines, start, wait_for
from videopro.errors import RunError
from videopro.report.pages.live import SpeedMeter, watch_run
from videopro.runs import RunFolder
from videopro.traces import TraceLog, read_traces


def console() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=100, force_terminal=True, color_system=None, legacy_windows=False), text


def last_screen(text: io.StringIO) -> str:
    return text.getvalue().rpartition("╭")[2]


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
    shown, text = console()
    left = list(some[1:4])
    with ExitStack() as holding:
        holding.enter_context(run.running([trace.question_id for trace in some]))

        def sleep(seconds: float) -> None:
            looks.append(last_screen(text))
            if left:
                log.append(left.pop(0))
            else:
                holding.close()

        watch_run(run.path, shown, sleep)
    log.close()
    assert [next(n for n in "123456" if f"{n}/6" in look) for look in looks] == ["1", "2", "3", "4"]
    assert "What flies over the hill?" in looks[2]
    assert "What flies over the hill?" not in looks[1]
    assert "waiting for answers" in looks[0]
    assert "left" in looks[3]
    end = last_screen(text)
    # Of right, wrong, refined and unread, two are right.
    assert "50.0 %" in end
    assert "stopped with 2 left" in end
    assert "unparsed 25.0 %" in end
    # One of the four began with a program, and was refined.
    assert "native 75.0  program 25.0" in end
    assert "refined 25.0" in end
    assert len(read_traces(run.traces)) == 4


def test_failures_are_counted_and_a_finished_run_is_shown_at_once(tmp_path: Path) -> None:
    run = world.write_run(tmp_path / "run", world.traces(tmp_path / "videos"))
    shown, text = console()
    watch_run(run.path, shown, lambda seconds: pytest.fail("the run has ended"))
    assert "6/6" in text.getvalue()
    assert "finished" in text.getvalue()
    assert "VideoError 1" in text.getvalue()
    assert "videopro on made test, none" in text.getvalue()


def test_a_run_without_an_answer_yet(tmp_path: Path) -> None:
    run = world.write_run(tmp_path / "run", [])
    run.traces.unlink()
    shown, text = console()
    watch_run(run.path, shown)
    assert "0/0" in text.getvalue()


def test_a_run_whose_model_still_loads_is_waited_for(tmp_path: Path) -> None:
    some = world.traces(tmp_path / "videos")
    shown, text = console()
    (tmp_path / "run" / "work").mkdir(parents=True)
    looks = iter((lambda: None, lambda: world.write_run(tmp_path / "run", some[:2]), lambda: None))
    watch_run(tmp_path / "run", shown, lambda seconds: next(looks)())
    assert text.getvalue().startswith(f"waiting for a run in {tmp_path / 'run'}")
    assert "2/2" in text.getvalue()


def test_an_unrelated_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(RunError, match="is not a run folder"):
        watch_run(tmp_path, console()[0], lambda seconds: pytest.fail("waits"))


def test_brackets_in_a_question_are_not_markup(tmp_path: Path) -> None:
    trace = world.trace("q", world.VideoRef("v.mp4", "v"), "Is [red]it[/blue] so?", *world.direct("A", 0.9))
    shown, text = console()
    watch_run(world.write_run(tmp_path / "run", [trace]).path, shown)
    assert "Is [red]it[/blue] so?" in text.getvalue()


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
        assert (looking.returncode, printed.strip()) == (130, "stopped watching; the run continues")
        assert run.is_running()
        assert {path: path.read_bytes() for path in before} == before


@pytest.mark.kills
def test_a_killed_run_is_seen_to_end(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "b")
    output = tmp_path / "run"
    process = start(tmp_path / "b", output, "--backbone", "delay=0.8")
    wait_for(lambda: lines(output) > 1)
    assert RunFolder(output).is_running()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    shown, text = console()
    watch_run(output, shown)
    assert "left; re-run its command to resume" in text.getvalue()
    finish(start(tmp_path / "b", output))
    assert not RunFolder(output).is_running()
    watch_run(output, shown)
    assert "12/12" in last_screen(text)
    assert "finished" in last_screen(text)
