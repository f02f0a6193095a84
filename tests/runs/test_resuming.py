"""Resuming a run: nothing is repeated, and another run, model or text of a question is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.fakes import load_fake, make_benchmark
from tests.support.infer_world import check_complete, flags, lines
from tests.support.infer_world import root as root
from videopro.commands import compare
from videopro.commands.infer import main
from videopro.runs import identity_difference


def test_resuming_adds_and_repeats_nothing(root: Path, tmp_path: Path) -> None:
    output, log = tmp_path / "run", tmp_path / "answers.txt"
    log.touch()
    asked = ("--backbone", f"log={log}")
    for limit, done in (("4", 4), ("4", 4), ("7", 7)):
        assert main(flags(root, output, "--limit", limit, *asked), load=load_fake) == 0
        assert lines(output) == done
        assert len(log.read_text().splitlines()) == done
    assert main(flags(root, output, *asked), load=load_fake) == 0
    check_complete(output)
    assert len(log.read_text().splitlines()) == 12
    assert json.loads((output / "summary.json").read_text())["n"] == 12


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--options", "frames=2"), "method.frames: the run has None, this command 2"),
        (("--options", "reply_tokens=64"), "method.reply_tokens: the run has nothing, this command 64"),
        (("--method", "program"), "method.planner: the run has nothing, this command 'self'"),
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
    assert "error: " in error
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


def test_a_run_that_showed_the_labels_of_choices_goes_on(tmp_path: Path) -> None:
    """As earlier versions did."""
    make_benchmark(tmp_path / "b", videos=1)
    output = tmp_path / "run"
    assert main(flags(tmp_path / "b", output, "--limit", "1"), load=load_fake) == 0
    trace = json.loads((output / "traces.jsonl").read_text())
    trace["choices"] = [f"{letter}. {text}" for letter, text in zip("ABCD", trace["choices"], strict=False)]
    (output / "traces.jsonl").write_text(json.dumps(trace) + "\n")
    assert main(flags(tmp_path / "b", output), load=load_fake) == 0
    check_complete(output, questions=3)


def test_long_texts_are_shown_where_they_begin_to_differ() -> None:
    text = "Watch the video. " * 20
    (line,) = identity_difference({"prompts": text + "Now answer."}, {"prompts": text + "Then answer." * 20})
    assert line == (
        "prompts: the run has '…o. Watch the video. Now answer.', this command "
        f"'…o. Watch the video. {('Then answer.' * 20)[:80]}…'"
    )
    (line,) = identity_difference({}, {"prompts": text})
    assert line == f"prompts: the run has nothing, this command '{text[:100]}…'"
