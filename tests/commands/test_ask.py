"""One question about the user's own file: what is printed, and the errors for missing input."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.fakes import load_fake, make_video
from tests.support.infer_world import SRT
from videopro import methods
from videopro.ask import AskConfig, _options, main
from videopro.traces import AnswerRule


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "my film.mp4"
    make_video(path, "blue")
    return path


def test_choices(video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(video), "Which colour?", "--choices", "red", "blue", "green", "--model", "m"]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "B. blue"
    assert "0.900" in shown[1]
    rows = [line.split() for line in shown[2:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("A", "red", "0.020"),
        ("B", "blue", "0.900"),
        ("C", "green", "0.020"),
    ]


def test_an_unparsed_reply_is_reported_as_such(video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(video), "Which colour? (mumble)", "--choices", "red", "blue", "--model", "m"]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out
    assert "no option: the model says 'Hmm'" in shown
    assert "confidence 0.000" in shown


def test_a_written_answer(video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    argv = [str(video), "What is [red] here?", "--model", "m", "--subtitles", str(tmp_path / "a.srt")]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out
    # The fake repeats its prompt; exp of the mean of -0.5 and -0.7 is 0.549.
    assert shown.startswith("I read: said early\nsaid in the middle\nWhat is [red] here?")
    assert "confidence 0.549" in shown


def test_subtitles_go_with_choices(video: Path, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    argv = [str(video), "Which?", "--choices", "red", "blue", "--model", "m"]
    argv += ["--subtitles", str(tmp_path / "a.srt"), "--backbone", f"log={tmp_path / 'prompt.txt'}"]
    assert main(argv, load=load_fake) == 0
    prompt = ast.literal_eval((tmp_path / "prompt.txt").read_text())
    assert prompt.startswith("said early\nsaid in the middle\nWhich?\nA. red\nB. blue\n")


PARTS = ("encoder", "text_encoder", "ocr", "detector", "tracker")


def test_ask_falls_back_to_a_direct_answer(
    video: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fake writes no programs, so the model answers directly, unless that is turned off."""
    argv = [str(video), "Which colour?", "--choices", "red", "blue", "green", "--model", "m"]
    argv += ["--method", "videopro", "--options", *(f"{part}=none" for part in PARTS)]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out
    assert "no program gave an answer: this is the model's direct one\nB. blue" in shown
    assert main([*argv, "--fallback", "none"], load=load_fake) == 0
    assert "no answer" in capsys.readouterr().out


def test_an_answer_that_a_refinement_lost_is_kept() -> None:
    made = methods.create("videopro", _options(AskConfig(Path("v"), "Q?", "m", method="videopro")))
    assert made.settings.rule == AnswerRule("last-answered", "native")
    said = AskConfig(Path("v"), "Q?", "m", method="videopro", final="last", fallback="none")
    assert methods.create("videopro", _options(said)).settings.rule == AnswerRule()
    assert methods.create("videopro", {}).settings.rule == AnswerRule(), "the paper's is a run's default"


BAD = [
    (["none.mp4", "Q?", "--model", "m"], "none.mp4"),
    (["VIDEO"], "'question' is missing"),
    (["VIDEO", "Q?"], "'model' is missing"),
    (["VIDEO", "Q?", "--choices", "one", "--model", "m"], "2 to 10 options"),
    (["VIDEO", "Q?", "--choices", "a", "b", "--model", "missing"], "model 'missing' does not exist"),
    (["VIDEO", "Q?", "--choices", "a", "b", "--model", "m", "--method", "magic"], "unknown method 'magic'"),
    (["VIDEO", "Q?", "--model", "m", "--subtitles", "none.srt"], "none.srt"),
    (["VIDEO", "Q?", "--model", "m", "--choises", "a"], "did you mean '--choices'?"),
    (["VIDEO", "Which? (refuse)", "--choices", "a", "b", "--model", "m"], "cannot serve this request"),
]


@pytest.mark.parametrize(("argv", "expected"), BAD, ids=[expected for _, expected in BAD])
def test_bad_requests(
    video: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(video) if word == "VIDEO" else word for word in argv], load=load_fake) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert expected in error
    assert error.count("\n") == 1
