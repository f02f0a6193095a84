"""Models of the pocket world are refused for other videos, before anything is loaded."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.colours import make_video
from videopro.backbones import Backbone, find_video, own_model
from videopro.commands import infer
from videopro.commands.ask import command as ask
from videopro.pocket import adapter_dir, model_dir
from videopro.pocket.encoders import ENCODER
from videopro.pocket.model import is_pocket_video

HUB = "Qwen/Qwen3-VL-2B-Instruct"


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of one's own, with questions about it."""
    folder = tmp_path_factory.mktemp("videos")
    make_video(folder / "video.mp4", "red")
    line = {"id": "q", "video": "video.mp4", "question": "Which?", "choices": ["a", "b"], "answer": "A"}
    (folder / "questions.jsonl").write_text(json.dumps(line))
    return folder / "video.mp4"


def not_loaded(name: str, **settings: object) -> Backbone:
    raise AssertionError(f"{name} is loaded")


def test_a_model_that_was_trained_from_it_is_refused(
    video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it itself is, and others that settings name (tests/messages/modules.yaml)."""
    own, trained = tmp_path / "trained", f"languagebind:{ENCODER.checkpoint}"
    own.mkdir()
    shutil.copy(model_dir() / "config.json", own)
    run = ["--benchmark", "jsonl", "--root", str(video.parent), "--output", str(tmp_path / "run")]
    for command, asked in ((ask.main, [str(video), "Which?", "--choices", "a", "b"]), (infer.main, run)):
        for words in (
            ["--model", str(own)],
            ["--model", "m", "--backbone", f"adapter={adapter_dir('pocket-sft')}"],
            ["--model", "m", "--method", "videopro", "--options", f"encoder={trained}"],
        ):
            assert command([*asked, *words], load=not_loaded) == 2
            assert capsys.readouterr().err.startswith(f"error: {video}: ")
    assert not (tmp_path / "run").exists()


def test_a_pocket_video_is_known_by_its_manifest(video: Path, tmp_path: Path) -> None:
    made = find_video(Path("pocket:val/short_000"))
    link = tmp_path / "linked.mp4"
    link.symlink_to(made)
    assert is_pocket_video(made)
    assert is_pocket_video(link)
    copy = tmp_path / "copy.mp4"
    shutil.copy(made, copy)
    # A video that took its place is none.
    replaced = tmp_path / made.name
    shutil.copy(video, replaced)
    shutil.copy(made.with_suffix(".json"), replaced.with_suffix(".json"))
    for other in (video, copy, replaced, tmp_path, tmp_path / "none.mp4"):
        assert not is_pocket_video(other)


@pytest.mark.parametrize(
    ("name", "is_it"),
    [
        *[("pocket", True), ("pocket+pocket-sft", True), ("server:pocket@http://x/v1", True)],
        *[(str(model_dir()), True), (f"{model_dir()}/", True), (f"server:{model_dir()}@http://x/v1", True)],
        *[(HUB, False), ("pocketsphinx/pocket", False), ("~nobody-of-this-name/x", False), ("a\0b", False)],
    ],
)
def test_names_of_the_pocket_model(name: str, is_it: bool) -> None:
    assert (own_model(name) is not None) is is_it
