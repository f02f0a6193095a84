"""When one exception ends a run, and what is kept of it; what a run shows before its first answer."""

import contextlib
import random
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.support import view_world as world
from videopro.cli import counter
from videopro.engine import ExceptionWatch, Progress
from videopro.errors import ExceptionRecord, WorkerBug
from videopro.runs import RunFolder
from videopro.runs.making.supervisor import Placement, Supervisor
from videopro.traces import Execution, Failure, Result, Trace, TraceLog

BUG = ExceptionRecord("ValueError", "lib/a.py:1", "odd", "Traceback ...\nValueError: odd")
OTHER = replace(BUG, place="lib/a.py:2")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return world.traces(tmp_path_factory.mktemp("videos"))[0]


def about(answered: Trace, video: str, ended_by: ExceptionRecord | None, error: str = "NativeError") -> Trace:
    """The trace of the only question about a video."""
    changed = replace(answered, question_id=f"q{video}", video=replace(answered.video, key=video))
    if ended_by is None and error == "NativeError":
        return changed
    failed = Result(error=Failure(error, "odd"), ended_by=ended_by)
    return replace(changed, **{entry.name: getattr(failed, entry.name) for entry in fields(Result)})


def stops_after(folder: Path, traces: Iterable[Trace]) -> int | None:
    """After how many traces the run stops; None: it goes to its end."""
    watch = ExceptionWatch(folder)
    for number, trace in enumerate(traces, 1):
        try:
            watch.see([trace], 1)
        except WorkerBug:
            return number
    return None


def test_faults_of_single_videos_stop_no_run(answered: Trace, tmp_path: Path) -> None:
    chance = random.Random(39)
    odd = [chance.random() < 0.2 for _ in range(300)]
    assert 40 < sum(odd) < 80
    run = [about(answered, str(number), BUG if is_odd else None) for number, is_odd in enumerate(odd)]
    assert stops_after(tmp_path, run) is None
    assert (tmp_path / "ValueError.txt").read_text().endswith(BUG.traceback)


def test_an_exception_about_every_video_stops_the_run(answered: Trace, tmp_path: Path) -> None:
    every = [about(answered, str(number), BUG) for number in range(20)]
    assert stops_after(tmp_path, every) == 3
    # A video that cannot be read says nothing about it; the first questions may be about one video.
    unreadable = about(answered, "v", None, "VideoError")
    assert stops_after(tmp_path, [every[0], unreadable, every[1], unreadable, every[2]]) == 5
    assert stops_after(tmp_path, [every[0]] * 9) is None
    # From a video on, and from two places.
    late = [about(answered, str(number), BUG if number >= 100 else None) for number in range(300)]
    assert stops_after(tmp_path, late) == 108
    two = [about(answered, str(number), (BUG, OTHER)[number % 2]) for number in range(30)]
    assert stops_after(tmp_path, two) is None


def test_what_a_program_met_and_caught_stops_no_run(answered: Trace, tmp_path: Path) -> None:
    met = replace(answered.rounds[0], execution=Execution("ok", exceptions=(BUG,)))
    run = [replace(about(answered, str(number), None), rounds=(met,)) for number in range(20)]
    assert stops_after(tmp_path, run) is None
    assert (tmp_path / "ValueError.txt").exists()


def test_a_run_with_nothing_left_is_not_stopped_and_a_stop_closes_the_log(
    answered: Trace, tmp_path: Path
) -> None:
    traces = [about(answered, str(number), BUG) for number in range(4)]
    ids = [trace.question_id for trace in traces]

    def work(asked: list[str], run: RunFolder, seen: TraceLog) -> None:
        with Progress(asked, seen=ExceptionWatch(run.exceptions).see) as progress:
            progress.watch(seen)
            log = TraceLog(run.traces)
            log.append_all(traces)
            log.close()

    for asked in (ids, [*ids, "another"]):
        run = world.write_run(tmp_path / str(len(asked)), [])
        seen = TraceLog(run.traces)
        if asked == ids:
            work(asked, run, seen)
        else:
            with pytest.raises(WorkerBug, match=r"(?s)ValueError: odd\n.*lib/a.py:1.* questions about 3"):
                work(asked, run, seen)
        assert (run.exceptions / "ValueError.txt").exists()
        with pytest.raises(OSError, match="Bad file descriptor"):
            seen.refresh()


def test_plain_lines_say_what_is_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counter, "PLAIN_SECONDS", 0.0)
    right = world.traces(tmp_path / "videos")[0]
    run = world.write_run(tmp_path / "run", [])
    doing = "indexing 2 videos"
    with Progress(["right", "wrong"], now=lambda: doing) as progress:
        progress.watch(TraceLog(run.traces))
        progress.update()
        with contextlib.closing(TraceLog(run.traces)) as log:
            log.refresh()
            log.append(right)
        progress.update()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "loading the model ..."
    assert "answering 2 questions ..." in lines
    before, after = (next(line for line in lines if text in line) for text in ("indexing", " 1/2, "))
    assert before.partition(" ")[2] == "indexing 2 videos: 0/2, no answer yet"
    assert "answering: 1/2, " in after
    assert "right 100.0 %" in after


def test_what_the_workers_are_at_is_added_up() -> None:
    supervisor = Supervisor(Placement(2, 1), lambda: None, ("native", {}))  # type: ignore[arg-type, return-value]
    assert supervisor.now() == ""
    for counts in ({"answering": 1, "indexing": 2}, {"opening": 1, "indexing": 1}, {}):
        worker = type("Worker", (), {"doing": counts})()
        supervisor._workers.append(worker)  # type: ignore[arg-type]
    assert supervisor.now() == "opening 1 video, indexing 3 videos, answering about 1 video"
