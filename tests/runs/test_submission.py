"""The file that a full run is submitted with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_runs import infer
from tests.support.benchmark_world import ego, write_json
from tests.support.fakes import make_video
from videopro.commands.benchmarks.command import main as benchmarks_main


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
