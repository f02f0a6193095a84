"""Settings of runs: those that come with the project can be read; another run's settings, and invalid
commands and question files, are refused with a short message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.fakes import load_fake, make_benchmark
from tests.support.infer_world import flags
from tests.support.infer_world import root as root
from videopro import compare
from videopro.backbones import read_spec
from videopro.infer import InferConfig, main
from videopro.methods import create
from videopro.settings import from_command_line

CONFIGS = ROOT / "configs" / "infer"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_settings(path: Path) -> None:
    """Every file in configs/infer has known keys of the right types, down to the method and the backbone."""
    argv = ["--config", str(path), "--output", "x"]
    config = from_command_line(InferConfig, argv, "infer", "")
    create(config.method, config.options)
    if config.model != "pocket":
        read_spec(config.model, **config.backbone)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--options", "frames=2"), "method.frames: the run has None, this command 2"),
        (("--seed", "5"), "generation.seed: the run has 0, this command 5"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (("--split", "val"), "protocol.split: the run has 'test', this command 'val'"),
    ],
)
def test_another_run_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Sequence[str], expected: str
) -> None:
    output = tmp_path / "run"
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 0
    before = {path: path.read_bytes() for path in output.glob("*.*")}
    capsys.readouterr()
    assert main(flags(root, output, "--limit", "2", *change), load=load_fake) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.startswith("error: ")
    assert {path: path.read_bytes() for path in output.glob("*.*")} == before


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an answer to both questions that it was asked."""
    output = tmp_path_factory.mktemp("finished") / "run"
    assert main(flags(root, output, "--limit", "2"), load=load_fake) == 0
    return output


@pytest.mark.parametrize("more", [(), ("--workers", "2"), ("--redo-errors",), ("--limit", "1")])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--model", "other"), "model.model: the run has 'm', this command 'other'"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (("--method", "native", "--options", "frames=2"), "method.frames: the run has None"),
        (("--seed", "5"), "generation.seed: the run has 0"),
    ],
)
def test_a_finished_run_keeps_its_model(
    root: Path,
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Sequence[str],
    expected: str,
    more: Sequence[str],
) -> None:
    """With nothing left to answer no model is loaded; its name is still compared, and first."""
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert main([*flags(root, output, "--limit", "2"), *more, *change], load=load_fake) == 2
    out, error = capsys.readouterr()
    assert expected in error
    assert out == ""
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    assert main([*flags(root, output, "--limit", "2"), *more], load=load_fake) == 0


def test_a_finished_method_of_a_table_keeps_its_model(
    root: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`compare` detects it before it runs any method."""
    shutil.copytree(finished, tmp_path / "table" / "adaptive")
    argv = flags(root, tmp_path / "table", "--limit", "1", "--methods", "native", "adaptive")
    assert compare.main(argv, load=load_fake) == 2
    assert "method.name: the run has 'native', this command 'adaptive'" in capsys.readouterr().err
    assert not (tmp_path / "table" / "native").exists()
    (tmp_path / "table" / "adaptive").rename(tmp_path / "table" / "native")
    argv = [*flags(root, tmp_path / "table", "--limit", "1"), "--model", "other"]
    assert compare.main([*argv, "--methods", "native", "adaptive"], load=load_fake) == 2
    assert "model.model: the run has 'm', this command 'other'" in capsys.readouterr().err
    assert not (tmp_path / "table" / "adaptive").exists()


def test_a_deleted_model_is_compared_by_its_name(
    root: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finished run of a deleted folder or server can be summarized again, by the model's name alone."""
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    config = output / "config.yaml"
    config.write_text(config.read_text().replace("model: m\n", "model: missing\n", 1))
    assert main([*flags(root, output, "--limit", "1"), "--model", "missing"], load=load_fake) == 0
    assert "'missing' was compared with the run's model by name only" in capsys.readouterr().err
    assert json.loads((output / "summary.json").read_text())["model"] == "missing"
    argv = [*flags(root, output, "--limit", "1"), "--model", "missing", "--backbone", "salt=x"]
    assert main(argv, load=load_fake) == 2
    assert "is a run of 'missing', which cannot be compared with 'missing'" in capsys.readouterr().err


def test_changed_questions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_benchmark(tmp_path / "b", videos=1)
    assert main(flags(tmp_path / "b", tmp_path / "run", "--limit", "1"), load=load_fake) == 0
    file = tmp_path / "b" / "questions.jsonl"
    file.write_text(file.read_text().replace("Which colour is shown (0)", "What colour is it"))
    assert main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake) == 2
    assert "'v0q0' now has another text" in capsys.readouterr().err


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
    (["--limit", "ten"], "invalid int value: 'ten'"),
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
    (["--workers", "0"], "workers is 0; it must be at least 1"),
    (["--ids", "v0q9"], "has no question 'v0q9'; did you mean 'v0q"),
    (["--method", "nativ"], "unknown method 'nativ'; did you mean 'native'?"),
    (["--options", "frame=3"], "unknown setting 'frame'; did you mean 'frames'?"),
    (["--options", "frames=many"], "frames is 'many'; it must be a whole number"),
    (
        ["--options", "subtitles=some"],
        "subtitles is 'some'; it must be one of none, frames, frames_widened, all",
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
    error = capsys.readouterr().err
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
    ('{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x"]}', "2 to 10 options"),
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
