"""Settings of runs: those that come with the project can be read; invalid commands and question files are
refused with a short message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.fakes import load_fake
from tests.support.infer_world import flags
from tests.support.infer_world import root as root
from videopro.backbones import read_spec
from videopro.commands.infer import COMMAND, main
from videopro.methods import create

CONFIGS = ROOT / "configs" / "infer"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_settings(path: Path) -> None:
    """Every file in configs/infer has known keys of the right types, down to the method and the backbone."""
    argv = ["--config", str(path), "--output", "x"]
    config = COMMAND.parse(argv)
    create(config.method, config.options)
    if config.model != "pocket":
        read_spec(config.model, **config.backbone)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


BAD = [
    (["--model", "m", "--output", "run"], "'benchmark' is missing"),
    (["--benchmark", "poket", "--model", "m", "--output", "run"], "did you mean 'pocket'?"),
    (["--benchmark", "jsonl", "--model", "m", "--output", "run"], "needs --root"),
    (
        ["--benchmark", "jsonl", "--root", "none", "--model", "m", "--output", "run"],
        "folder none does not exist",
    ),
    (
        ["--benchmark", "jsonl", "--root", ".", "--model", "m", "--output", "run"],
        "questions.jsonl does not exist",
    ),
    (["--bench", "jsonl"], "unknown argument '--bench'; did you mean '--benchmark'?"),
    (["--limit", "ten"], "limit is 'ten'; it must be a number"),
    (["--config", "none.yaml"], "none.yaml: cannot be read"),
    (["--options", "frames"], "'frames' must have the form key=value"),
]


@pytest.mark.parametrize(("argv", "expected"), BAD, ids=[expected for _, expected in BAD])
def test_bad_commands(here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: str) -> None:
    assert main(argv, load=load_fake) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1, "one line, no traceback"
    assert expected in error
    assert list(here.iterdir()) == []


BAD_SETTINGS = [
    (["--model", "missing"], "model 'missing' does not exist"),
    (["--limit", "0"], "limit is 0; it must be at least 1"),
    (["--limit", "inf"], "limit is inf; it must be at least 1"),
    (["--limit", "nan"], "limit is nan; it must be at least 1"),
    (["--workers", "0"], "workers is 0; it must be at least 1"),
    (["--ids", "v0q9"], "has no question 'v0q9'; did you mean 'v0q"),
    (["--method", "nativ"], "unknown method 'nativ'; did you mean 'native'?"),
    (["--options", "frame=3"], "unknown setting 'frame'; did you mean 'frames'?"),
    (["--options", "frames=many"], "frames is 'many'; it must be a whole number"),
    (
        ["--options", "subtitles=some"],
        "subtitles is 'some'; it must be one of none, frames, frames_until, frames_inside, ",
    ),
    (["--output", "file/run"], "is not a writable directory"),
    (["--output", "file"], "file: is not a directory"),
    (["--output", "other"], "other: contains 'notes.txt' but no config.yaml"),
    (["--output", "/proc/run"], "/proc/run: cannot be written"),
]


@pytest.mark.parametrize(("more", "expected"), BAD_SETTINGS, ids=[expected for _, expected in BAD_SETTINGS])
def test_bad_settings(
    root: Path, here: Path, capsys: pytest.CaptureFixture[str], more: list[str], expected: str
) -> None:
    (here / "file").write_text("")
    (here / "other").mkdir()
    (here / "other" / "notes.txt").write_text("mine")
    before = sorted(here.rglob("*"))
    assert main(flags(root, here / "run", *more), load=load_fake) == 2
    # Two of them are found when the workers have loaded the model.
    error = capsys.readouterr().err.removeprefix("loading the model ...\n")
    assert error.startswith("error: ")
    assert expected in error
    assert "Traceback" not in error
    assert sorted(here.rglob("*")) == before, "nothing half-written"


def test_unknown_key_in_a_file(root: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.yaml").write_text("benchmark: jsonl\nmodle: m\n")
    assert main(["--config", "run.yaml"], load=load_fake) == 2
    assert capsys.readouterr().err == "error: run.yaml: unknown setting 'modle'; did you mean 'model'?\n"


BAD_LINES = [
    ("{", "line 2: is not JSON"),
    ("[]", "line 2: must be an object, not list"),
    (
        '{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x", "y"], "anwser": "A"}',
        "did you mean 'answer'?",
    ),
    ('{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x"]}', "2 to 26 options"),
    ('{"id": "a", "video": "v.mp4", "question": "Q", "choices": "xy"}', "'choices' must be a list"),
    (
        '{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x", "y"], "answer": "C"}',
        "'C' is not an option",
    ),
    ('{"id": "a", "question": "Q", "choices": ["x", "y"]}', "field 'video' is missing"),
    ('{"id": 3, "video": "v.mp4", "question": "Q", "choices": ["x", "y"]}', "field 'id' is 3"),
    (
        '{"id": "v0q0", "video": "v.mp4", "question": "Q", "choices": ["x", "y"]}',
        "is already used in line 1",
    ),
    (
        '{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x", "y"], "evidence": [[3, 1]]}',
        "'evidence' contains [3, 1]",
    ),
]


@pytest.mark.parametrize(("line", "expected"), BAD_LINES, ids=[expected for _, expected in BAD_LINES])
def test_bad_question_files(
    root: Path, here: Path, capsys: pytest.CaptureFixture[str], line: str, expected: str
) -> None:
    first = (root / "questions.jsonl").read_text().splitlines()[0]
    (here / "questions.jsonl").write_text(f"{first}\n{line}\n")
    assert main(flags(here, here / "run"), load=load_fake) == 2
    error = capsys.readouterr().err
    assert f"{here / 'questions.jsonl'}, line 2" in error
    assert expected in error
    assert not (here / "run").exists()
