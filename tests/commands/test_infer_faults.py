"""What goes wrong in a run: videos, subtitles and requests that are counted as their questions' errors, and
errors that stop it with their cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.colours import check_complete, flags, lines, load_fake, make_benchmark, rewrite
from tests.support.colours import root as root
from videopro.commands import compare, seeds
from videopro.commands.infer import main
from videopro.commands.report import main as report_main
from videopro.traces import read_traces


def test_a_broken_video_is_counted_and_can_be_fixed(tmp_path: Path) -> None:
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, broken=[1])
    (root / "videos" / "v2.mp4").unlink()
    assert main(flags(root, output), load=load_fake) == 0
    errors = {t.question_id: t.error for t in check_complete(output) if t.error}
    assert set(errors) == {f"v{v}q{q}" for v in (1, 2) for q in range(3)}
    assert all(
        error.type == "VideoError" and "v1.mp4" in error.message for q, error in errors.items() if q[1] == "1"
    )
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["coverage"], summary["errors"]) == (6, 0.5, {"VideoError": 6})
    assert summary["accuracy"] == pytest.approx(4 / 6)

    make_benchmark(root)
    assert main(flags(root, output), load=load_fake) == 0
    assert lines(output) == 12, "a recorded error is not tried again by itself"
    assert main(flags(root, output, "--redo-errors"), load=load_fake) == 0
    assert len(read_traces(output / "traces.jsonl")) == 12
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["coverage"], summary["errors"]) == (12, 1.0, {})


def test_what_is_left_out_stands_beside_every_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_benchmark(tmp_path / "b", broken=[1])
    output = tmp_path / "run"
    assert main(flags(tmp_path / "b", output), load=load_fake) == 0
    assert compare.main([str(output), str(output)]) == 0
    assert seeds.main([f"one={output}"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("left out: 3 VideoError") == 3
    assert report_main([str(output), "--output", str(tmp_path / "report"), "--tables", "main"]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Left out of the accuracy: Native VideoLLM 3 VideoError." in page


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--backbone", "gone=true"], "serves no other request either"),
        (["--model", "missing"], "error: model 'missing' does not exist"),
        (["--output", "/proc/run"], "error: /proc/run: cannot be written"),
    ],
)
def test_what_only_a_loaded_model_tells_stops_the_run(
    root: Path, tmp_path: Path, more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(root, tmp_path / "run", *more), load=load_fake) == 2
    error = capsys.readouterr().err
    assert (says in error, "Traceback" in error) == (True, False)
    assert lines(tmp_path / "run") == 0


def test_an_exception_that_nobody_foresaw_costs_its_question_and_is_counted_by_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_benchmark(tmp_path / "b", videos=2)
    rewrite(tmp_path / "b", "v0q1", "What is it? (bug)")
    output = tmp_path / "run"
    assert main(flags(tmp_path / "b", output, "--workers", "2"), load=load_fake) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert [trace.question_id for trace in check_complete(output, 6) if trace.error] == ["v0q1"]
    summary = json.loads((output / "summary.json").read_text())
    # The other questions of its video are answered. No program asked, so it is left out, which is said.
    assert (summary["n"], summary["left_out"]) == (5, {"NativeError": 1})
    assert summary["accuracy"] == pytest.approx(3 / 5)
    assert "left out: 1 NativeError" in shown
    (kind,) = summary["exceptions"]
    found = summary["exceptions"][kind]
    assert (kind, found["questions"], found["videos"]) == ("ZeroDivisionError", 1, 1)
    assert "1 question (videos: 1) met an unexpected ZeroDivisionError" in shown
    kept = (output / "work" / "exceptions" / "ZeroDivisionError.txt").read_text()
    assert kept.startswith("question v0q1, video ")
    assert 'raise ZeroDivisionError("an internal error on purpose")' in kept

    rewrite(tmp_path / "b", "v0q1", "Which colour is shown (1)?")
    assert main(flags(tmp_path / "b", output), load=load_fake) == 2, "its trace has another text"


def test_one_exception_over_several_videos_stops_the_run_which_then_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_benchmark(tmp_path / "b", videos=8, questions=1)
    for video in range(8):
        rewrite(tmp_path / "b", f"v{video}q0", "What is it? (bug)")
    words = flags(tmp_path / "b", tmp_path / "run", "--in-flight", "1")
    # A stop comes after three questions or later, and never after the last one.
    for done in (3, 6, 8):
        status = main(words, load=load_fake)
        error = capsys.readouterr().err
        assert ("The same exception (ZeroDivisionError at tests/support/fake" in error) == bool(status)
        assert ("error: an internal error (above) stopped the run" in error) == bool(status)
        assert lines(tmp_path / "run") >= done
        if status == 0:
            break
    assert (status, lines(tmp_path / "run")) == (0, 8)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["left_out"] == {"NativeError": 8}


def test_a_machine_without_memory_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_benchmark(tmp_path / "b", videos=1)
    rewrite(tmp_path / "b", "v0q1", "What is it? (memory)")
    statuses = []
    while not statuses or statuses[-1]:
        statuses.append(main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake))
        error = capsys.readouterr().err
        assert ("error: the machine failed (MemoryError: no room on purpose): free memory" in error) == bool(
            statuses[-1]
        )
        assert "Traceback" not in error
    # Not at the same place for ever: the question is found, asked alone, and given up.
    assert statuses == [2, 2, 2, 0]
    (log,) = (tmp_path / "run" / "work" / "logs").iterdir()
    assert "Traceback" in log.read_text()
    failed = [trace.error for trace in check_complete(tmp_path / "run", 3) if trace.error]
    assert [(error.type, error.message.partition(",")[0]) for error in failed] == [
        ("WorkerDied", "the worker that answered it failed (MemoryError: no room on purpose)")
    ]
