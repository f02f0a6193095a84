"""Runs: their settings, what they record and which questions they ask; what goes wrong in them and is counted
as the question's error, or stops them with its cause."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from tests.support.colours import check_complete, flags, lines, load_fake, make_benchmark, rewrite
from tests.support.colours import root as root
from videopro.backbones import read_spec
from videopro.benchmarks import load
from videopro.commands import compare, seeds
from videopro.commands.infer import COMMAND, main
from videopro.commands.report import main as report_main
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.traces import read_traces


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs" / "infer").glob("*.yaml")), ids=lambda path: path.name
)
def test_shipped_settings(path: Path) -> None:
    """Every file in configs/infer has known keys of the right types, down to the method and the backbone."""
    config = COMMAND.parse(["--config", str(path), "--output", "x"])
    create(config.method, config.options)
    if config.model != "pocket":
        read_spec(config.model, **config.backbone)


def test_a_run_and_what_it_records(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "deep" / "run"
    assert main(flags(root, output, "--options", "frames=3"), load=load_fake) == 0
    traces = {trace.question_id: trace for trace in check_complete(output)}
    # Colours from pixels, so every answer is the right one; two of three golds are stated rightly.
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["unparsed"], summary["coverage"]) == (12, 0, 1.0)
    assert summary["accuracy"] == summary["official_accuracy"] == pytest.approx(8 / 12)
    low, high = summary["accuracy_ci95"]
    assert low <= 8 / 12 <= high
    families = {name: (row["n"], row["accuracy"]) for name, row in summary["groups"]["family"].items()}
    assert families == {"even": (8, 0.5), "odd": (4, 1.0)}
    assert {name: row["n"] for name, row in summary["groups"]["duration"].items()} == {"short": 6, "long": 6}
    assert summary["seconds_per_question"] > 0

    trace = traces["v2q1"]
    assert trace.video.path == str(root / "videos/v2.mp4")
    assert trace.video.duration == pytest.approx(2.0)
    assert trace.video.id
    assert trace.choices == ("green", "blue", "grey", "red")
    assert trace.gold == "B"
    assert (trace.final.letter, trace.final.confidence, trace.official) == ("B", 0.9, "B")
    assert trace.final == trace.first
    (attempt,) = trace.rounds
    # Midpoints of three equal parts of 2 s: 1/3, 1 and 5/3 s; on display then: frames of 2/8, 8/8, 13/8 s.
    assert attempt.execution.calls[0].frames == ((0.25, 24, 32), (1.0, 24, 32), (1.625, 24, 32))
    total = [sum(getattr(t.cost, name) for t in traces.values()) for name in ("frames", "calls", "tokens_in")]
    assert total == pytest.approx([4 * 3, 12, 12 * 103])

    shown = capsys.readouterr().out
    assert "66.7" in shown
    assert str(output) in shown
    assert not (output / "work" / "leases").exists()


def test_config_file_makes_the_same_run(root: Path, tmp_path: Path) -> None:
    """What a run wrote as config.yaml starts it again; a flag overrides the file."""
    first = tmp_path / "first"
    assert main(flags(root, first, "--limit", "2", "--seed", "3"), load=load_fake) == 0
    config = first / "config.yaml"
    assert main(["--config", str(config), "--output", str(tmp_path / "second")], load=load_fake) == 0

    def made(name: str) -> tuple[object, list[str]]:
        settings = yaml.safe_load((tmp_path / name / "config.yaml").read_text())
        return settings["run_key"], [t.question_id for t in read_traces(tmp_path / name / "traces.jsonl")]

    assert made("first") == made("second")


def test_limits_are_prefixes_of_each_other(root: Path) -> None:
    benchmark = load("jsonl", root=root)
    for seed in range(3):
        whole = [item.id for item in benchmark.select(limit=12, seed=seed)]
        assert sorted(whole) == sorted(item.id for item in benchmark.items)
        for limit in range(1, 12):
            assert [item.id for item in benchmark.select(limit=limit, seed=seed)] == whole[:limit]
        # Two of the videos are short and two are long: the first six questions are about one of each.
        assert {item.groups["duration"] for item in benchmark.select(limit=6, seed=seed)} == {"short", "long"}
    assert len({tuple(item.id for item in benchmark.select(limit=3, seed=seed)) for seed in range(8)}) > 2


def test_a_share_is_part_of_the_same_order(root: Path) -> None:
    benchmark = load("jsonl", root=root)
    whole = benchmark.select(limit=12, seed=1)
    assert benchmark.select(limit=0.25, seed=1) == whole[:3]
    assert benchmark.select(limit=0.26, seed=1) == whole[:4], "rounded up"
    assert benchmark.select(limit=1.0, seed=1) == whole[:1], "a number, not a share"
    with pytest.raises(ConfigError, match=r"limit is 1\.5; it must be a whole number"):
        benchmark.select(limit=1.5)


# ---- what goes wrong -----------------------------------------------------------------------------------


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


def test_a_run_without_any_answer_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also a finished one, until a video is there."""
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, videos=1)
    (root / "videos" / "v0.mp4").unlink()
    for _ in range(2):
        assert main(flags(root, output), load=load_fake) == 2
        out, error = capsys.readouterr()
        assert "v0.mp4 (v0q0, v0q1, v0q2): no such file" in " ".join(out.split())
        assert f"{output}: none of its 3 questions could be answered" in error
    make_benchmark(root, videos=1)
    assert main(flags(root, output, "--redo-errors"), load=load_fake) == 0


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
    why = "(v1q0, v1q1, v1q2): FFmpeg cannot read it as a video"
    assert said.count(why) == 3
    assert report_main([str(output), "--output", str(tmp_path / "report"), "--tables", "main", "runs"]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert why in capsys.readouterr().out
    assert why in page
    assert "Left out of the accuracy: Native VideoLLM 3 VideoError." in page


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--backbone", "gone=true"], "Every other request fails too"),
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
    assert "1 question (videos: 1) ended in an unexpected ZeroDivisionError" in shown
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
        assert ("The same exception (ZeroDivisionError at tests/support/fake" in error) == (status == 1)
        assert ("error: the run stopped after an internal error (see above)" in error) == (status == 1)
        assert lines(tmp_path / "run") >= done
        if status != 1:
            break
    assert (status, lines(tmp_path / "run")) == (2, 8)
    assert "none of its 8 questions could be answered" in error
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["left_out"] == {"NativeError": 8}


def test_a_machine_without_memory_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_benchmark(tmp_path / "b", videos=1)
    rewrite(tmp_path / "b", "v0q1", "What is it? (memory)")
    statuses = []
    while not statuses or statuses[-1]:
        statuses.append(main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake))
        error = capsys.readouterr().err
        assert ("error: the machine failed (MemoryError: no room on purpose); free memory" in error) == bool(
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
