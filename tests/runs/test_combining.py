"""What is made of runs of one benchmark: CG-Bench's metrics over several tasks, and a file to submit."""

import json
from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_runs import infer
from tests.support.benchmark_world import cg, ego, write_json
from tests.support.colours import make_video
from videopro.commands.benchmarks.command import main as benchmarks_main
from videopro.commands.report import main as report_main


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "cg"
    colours = ["green", "grey", "blue", "red"]
    records = [{**cg(i, [[0.0, 1.0]], "D"), "video_uid": "uid", "choices": colours} for i in (1, 2)]
    write_json(root / "cgbench_mini.json", records)
    make_video(root / "cg_videos_720p/uid.mp4", "red", 1.0)
    for task in ("long", "clue", "miou"):
        flags = ["--benchmark", "cg_bench", "--split", "mini", "--protocol", task]
        assert infer(root, tmp_path / task, *flags) == 0
    runs = ["--long", str(tmp_path / "long"), "--clue", str(tmp_path / "clue")]
    assert benchmarks_main(["combine", *runs, "--output", str(tmp_path / "numbers.json")]) == 0
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert (numbers["all"]["long_acc"], numbers["all"]["CRR"], numbers["all"]["mIoU"]) == (1.0, 1.0, None)
    # The model names no interval.
    named = json.loads((tmp_path / "miou/summary.json").read_text())
    assert (named["n"], named["metrics"]["mIoU"]["official"]) == (0, 0.0)
    assert report_main([str(tmp_path / "miou"), "--output", str(tmp_path / "report")]) == 0
    capsys.readouterr()
    assert benchmarks_main(["combine", *runs, "--miou", str(tmp_path / "miou")]) == 0
    assert "mIoU" in capsys.readouterr().out
    # Runs of another task, of another split, and of other questions.
    write_json(root / "cgbench.json", records)
    clue = ("--benchmark", "cg_bench", "--protocol", "clue")
    assert infer(root, tmp_path / "full", *clue, "--split", "full") == 0
    assert infer(root, tmp_path / "one", *clue, "--split", "mini", "--limit", "1") == 0
    for long, other, expected in (
        ("clue", "long", "--long needs a run of 'cg_bench' with protocol long or long_subtitles or videopro"),
        ("long", "full", f"full: its split is 'full', but {tmp_path / 'long'} has 'mini'"),
        ("long", "one", "one: 1 questions are only in this run or only in "),
    ):
        capsys.readouterr()
        words = ["combine", "--long", str(tmp_path / long), "--clue", str(tmp_path / other)]
        assert benchmarks_main(words) == 2
        assert expected in capsys.readouterr().err


def test_a_full_run_is_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, run = tmp_path / "ego", tmp_path / "run"
    ego(root)
    questions = json.loads((root / "questions.json").read_text())
    for place, (colour, record) in enumerate(zip(("red", "blue"), questions, strict=False)):
        options = ["grey", "green", "red", "blue", "brown"]
        record |= {f"option {k}": option for k, option in enumerate(options)}
        make_video(root / f"videos/uid-{place}.mp4", colour, 1.0)
    write_json(root / "questions.json", questions)  # the third file is not a video
    assert infer(root, run, "--benchmark", "egoschema", "--split", "full") == 0
    assert benchmarks_main(["submit", str(run), "--output", str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == {"uid-0": 2, "uid-1": 3, "uid-2": -1}
    assert "3 questions, 1 of them without an answer" in capsys.readouterr().out
    assert benchmarks_main(["submit", str(run), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text() == "q_uid,answer\nuid-0,2\nuid-1,3\nuid-2,-1\n"
    assert benchmarks_main(["submit", str(run), "--output", str(tmp_path / "out.txt")]) == 2
