"""`videopro ask` for programs (--json) and for the viewer (--output)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.fakes import ColourBackbone, load_fake, make_video
from videopro.backbones import Backbone, ChoiceRequest
from videopro.commands import view
from videopro.commands.ask.command import main
from videopro.errors import BackboneError
from videopro.question import Answer
from videopro.runs import AskedRun

PROGRAM = """
def execute_command(video, question):
    frames = extract_frames(video, num_frames=2)
    return query_mc(frames, question, choices)
"""
COLOURS = ["Which colour?", "--choices", "red", "blue", "green", "--model", "m"]
PARTS = [f"{part}=none" for part in ("encoder", "text_encoder", "ocr", "detector", "tracker")]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "my film.mp4"
    make_video(path, "blue")
    return path


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """All that stands on stdout."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_program_is_told_step_by_step_with_its_evidence_and_its_answer(
    video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.py").write_text(PROGRAM)
    argv = [
        str(video),
        *COLOURS,
        "--method",
        "videopro",
        "--planner",
        f"file:{tmp_path / 'plan.py'}",
        "--json",
    ]
    assert main([*argv, "--options", *PARTS], load=load_fake) == 0
    told = events(capsys)
    assert [event["type"] for event in told] == [
        *["wait"] * 3,
        *["reply", "call", "call", "execution", "evidence", "answer"],
    ]
    reply, extracted, asked, execution, piece, answer = told[3:]
    assert (reply["program"].strip(), reply["round"]) == (PROGRAM.strip(), 0)
    assert [(call["number"], call["name"]) for call in (extracted, asked)] == [
        (1, "extract_frames"),
        (2, "query_mc"),
    ]
    assert (execution["status"], execution["letter"], execution["confidence"]) == ("ok", "B", 0.9)
    times = [frame["time"] for frame in asked["frames"]]
    assert len(times) == 2
    assert (piece["kind"], piece["source"], piece["times"]) == ("frames", "call 2 query_mc", times)
    assert (piece["start"], piece["end"]) == (times[0], times[1])
    assert (answer["letter"], answer["choice"], answer["confidence"]) == ("B", "blue", 0.9)
    assert answer["error"] is None


@pytest.mark.parametrize(
    ("argv", "kind", "message"),
    [
        (["nowhere.mp4", "Q?", "--model", "m"], "VideoError", "nowhere.mp4"),
        (["VIDEO", "Q?", "--model"], "ConfigError", "--model requires an argument"),
        (["VIDEO", "Q?", "--model", "m", "--output", "VIDEO"], "RunError", "is not a directory"),
    ],
    ids=["the film", "the command line", "the folder"],
)
def test_an_error_is_one_object(
    video: Path, capsys: pytest.CaptureFixture[str], argv: list[str], kind: str, message: str
) -> None:
    filled = [str(video) if word == "VIDEO" else word for word in argv]
    assert main(["--json", *filled], load=load_fake) == 2
    (told,) = events(capsys)
    assert (told["type"], told["error"]["type"], told["cost"]["calls"]) == ("error", kind, 0)
    assert message in told["error"]["message"]


class RefusingBackbone(ColourBackbone):
    """Serves no request."""

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        raise BackboneError("out of order")


def test_a_question_that_fails_is_told_by_the_name_of_its_failure_and_kept(
    video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(model: str, **settings: Any) -> Backbone:
        return RefusingBackbone(model, **settings)

    argv = [str(video), *COLOURS, "--json", "--output", str(tmp_path / "run")]
    assert main(argv, load=load) == 2
    told = events(capsys)
    assert told[-1]["type"] == "error"
    assert told[-1]["error"] == {"type": "BackboneError", "message": "out of order"}
    # It looked at the frames before it failed.
    assert told[-1]["cost"]["frames"] == 4
    (trace,) = AskedRun(tmp_path / "run").read()
    assert trace.error is not None
    assert (trace.error.type, trace.error.message) == ("BackboneError", "out of order")


def test_what_a_library_prints_is_not_among_the_objects(video: Path, tmp_path: Path) -> None:
    # In a process of its own, as the terminal has it, and with a reader that goes away.
    script = (
        "import sys\nfrom tests.support.fakes import load_fake\n"
        "from videopro.commands.ask.command import main\n"
        "def load(model, **settings):\n    print('loading shards: 100 %')\n    return load_fake(model)\n"
        "sys.exit(main(load=load))\n"
    )
    argv = [sys.executable, "-c", script, str(video), *COLOURS, "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()][-1] == "answer"
    assert "loading shards" in done.stderr


def test_a_folder_collects_questions_of_one_method_and_model(
    video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(video.parent)
    run = tmp_path / "run"
    argv = [video.name, *COLOURS, "--output", str(run)]
    assert main(argv, load=load_fake) == 0
    assert f"kept as question 1 of {run}: videopro view {run} --open" in capsys.readouterr().err
    assert main([*argv, "--json"], load=load_fake) == 0
    assert {"type": "stored", "folder": str(run), "question_id": "2"} in events(capsys)
    assert main([video.name, "What is it?", "--model", "m", "--output", str(run)], load=load_fake) == 0
    traces = AskedRun(run).read()
    assert [(trace.question_id, trace.question) for trace in traces] == [
        ("1", "Which colour?"),
        ("2", "Which colour?"),
        ("3", "What is it?"),
    ]
    assert traces[0].final is not None
    assert (traces[0].final.letter, traces[0].video.path) == ("B", str(video))
    capsys.readouterr()
    # Another method, and another model.
    other = [video.name, *COLOURS, "--output", str(run), "--method", "videopro", "--options", *PARTS]
    assert main(other, load=load_fake) == 2
    assert capsys.readouterr().err == (
        f"error: {run}: holds questions that method 'native' answered, not 'videopro'; give another "
        "--output, or --method native\n"
    )
    argv[argv.index("m")] = "n"
    assert main(argv, load=load_fake) == 2
    assert "model.model: the run has 'm', this command 'n'" in capsys.readouterr().err
    assert len(AskedRun(run).read()) == 3
    assert view.main([str(run), "--no-pictures"]) == 0
    assert "3 questions" in capsys.readouterr().out
