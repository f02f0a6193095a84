"""Subtitles inside a video file, where no other is listed: in a folder of own questions, and in ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import COLOURS, load_fake
from tests.support.making_videos import with_subtitles
from videopro import benchmarks
from videopro.cli import read_yaml
from videopro.commands.ask.command import main as ask
from videopro.commands.infer import main as infer
from videopro.traces import read_traces

SAID = [(1.0, 2.5, "the code is seven"), (3.0, 4.0, "bye")]
SRT = "1\n00:00:01,000 --> 00:00:02,000\nfrom the file\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A video with a track, and one without."""
    folder = tmp_path / "own"
    folder.mkdir()
    with_subtitles(folder / "talk.mkv", [("subrip", "eng", SAID)])
    with_subtitles(folder / "mute.mkv", [])
    (folder / "talk.srt").write_text(SRT)
    return folder


def write(root: Path, **videos: dict[str, Any]) -> None:
    """One question a video, with further fields."""
    lines = [
        {"id": name, "video": f"{name[:4]}.mkv", "question": "Which?", "choices": [*COLOURS], **fields}
        for name, fields in videos.items()
    ]
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_they_are_used_where_no_field_says_otherwise(root: Path) -> None:
    write(root, talk={}, talk_listed={"subtitles": "talk.srt"}, talk_none={"subtitles": None}, mute={})
    found = benchmarks.load("jsonl", root=root)
    assert {item.id: item.subtitles for item in found.items} == {
        "talk": root / "talk.mkv",
        "talk_listed": root / "talk.srt",
        "talk_none": None,
        "mute": None,
    }
    assert found.version == "embedded subtitles"


@pytest.mark.parametrize("fields", [{"subtitles": "talk.srt"}, {"subtitles": None}])
def test_a_folder_that_uses_none_keeps_its_run_key(root: Path, fields: dict[str, Any]) -> None:
    write(root, talk=fields, mute={})
    assert benchmarks.load("jsonl", root=root).version == ""


def test_a_run_shows_them_where_subtitles_are_asked_for(root: Path, tmp_path: Path) -> None:
    write(root, talk={})
    for subtitles, is_shown in (("all", True), ("none", False)):
        prompts, run = tmp_path / f"{subtitles}.txt", tmp_path / subtitles
        argv = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(run)]
        argv += ["--options", f"subtitles={subtitles}", "--backbone", f"log={prompts}", "--workers", "1"]
        assert infer(argv, load=load_fake) == 0
        assert ("the code is seven" in prompts.read_text()) is is_shown
        (trace,) = read_traces(run / "traces.jsonl")
        assert trace.error is None


def test_ask_shows_them_where_subtitles_are_asked_for(root: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompt.txt"
    argv = [str(root / "talk.mkv"), "Which?", "--choices", *COLOURS, "--model", "m", "--backbone"]
    argv.append(f"log={prompts}")
    assert ask(argv, load=load_fake) == 0
    assert "seven" not in prompts.read_text()
    assert ask([*argv, "--options", "subtitles=all"], load=load_fake) == 0
    assert "the code is seven" in prompts.read_text()
    prompts.unlink()
    more = ["--subtitles", str(root / "talk.srt")]
    assert ask([*argv, *more], load=load_fake) == 0
    assert "from the file" in prompts.read_text()
    assert "seven" not in prompts.read_text()


def two_tracks(root: Path) -> None:
    tracks = [("subrip", "eng", SAID), ("subrip", "ger", [(1.0, 2.0, "der Code ist sieben")])]
    with_subtitles(root / "talk.mkv", tracks)


def test_the_track_of_a_run_is_part_of_its_key(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_tracks(root)
    write(root, talk={})
    argv = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--workers", "1"]
    argv += ["--options", "subtitles=all"]
    keys = {}
    for name, track in (
        ("unset", []),
        ("german", ["--subtitle-track", "de"]),
        ("two", ["--subtitle-track", "2"]),
    ):
        prompts, run = tmp_path / f"{name}.txt", tmp_path / name
        assert (
            infer([*argv, *track, "--output", str(run), "--backbone", f"log={prompts}"], load=load_fake) == 0
        )
        (trace,) = read_traces(run / "traces.jsonl")
        if name == "two":
            assert trace.error is not None
            assert "has no subtitle track '2'; it has 0: srt (eng); 1: srt (ger)" in trace.error.message
        else:
            assert ("sieben" in prompts.read_text()) is (name == "german")
        recorded = read_yaml(run / "config.yaml")
        keys[name] = recorded["identity"]["protocol"].get("subtitle_track")
    assert keys == {"unset": None, "german": "de", "two": "2"}
    capsys.readouterr()
    # The same folder with another track is another run.
    assert infer([*argv, "--output", str(tmp_path / "german")], load=load_fake) == 2
    assert "subtitle_track" in capsys.readouterr().err


def test_a_track_where_no_video_has_subtitles_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, mute={}, talk_listed={"subtitles": "talk.srt"})
    argv = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(tmp_path / "run")]
    assert infer([*argv, "--subtitle-track", "eng"], load=load_fake) == 2
    assert "--subtitle-track eng: jsonl has no question whose subtitles are in" in capsys.readouterr().err


def test_ask_shows_the_track_that_is_named(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_tracks(root)
    prompts = tmp_path / "prompt.txt"
    argv = [str(root / "talk.mkv"), "Which?", "--choices", *COLOURS, "--model", "m", "--backbone"]
    argv.append(f"log={prompts}")
    assert ask([*argv, "--subtitle-track", "ger"], load=load_fake) == 0
    assert "sieben" in prompts.read_text()
    assert ask([*argv, "--subtitle-track", "fra"], load=load_fake) == 2
    assert "no subtitle track 'fra'; it has 0: srt (eng); 1: srt (ger)" in capsys.readouterr().err
    assert ask([*argv, "--subtitles", str(root / "talk.srt"), "--subtitle-track", "0"], load=load_fake) == 2
    assert f"--subtitle-track 0: {root / 'talk.srt'} is no video file" in capsys.readouterr().err
