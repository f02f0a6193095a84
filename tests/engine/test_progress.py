"""What a run shows of itself before its first answer, and after it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.support import view_world as world
from videopro.cli import counter
from videopro.engine import Progress
from videopro.runs.making.supervisor import Placement, Supervisor
from videopro.traces import TraceLog


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
