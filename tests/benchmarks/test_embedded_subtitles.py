"""Subtitles inside a video file, where no other is listed: in a folder of own questions, and in ask."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.colours import COLOURS, load_fake
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


def run(root: Path, output: Path, *more: str) -> str:
    """What is asked in a run over the folder; nothing if the command fails."""
    prompts = output.with_suffix(".txt")
    words = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output), *more]
    status = infer([*words, "--workers", "1", "--backbone", f"log={prompts}"], load=load_fake)
    return prompts.read_text() if status == 0 and prompts.exists() else ""


def asked(root: Path, *more: str) -> str:
    """What `ask` asks about the video with a track; nothing if it fails."""
    prompts = root / "prompt.txt"
    prompts.unlink(missing_ok=True)
    words = [str(root / "talk.mkv"), "Which?", "--choices", *COLOURS, "--model", "m", *more]
    status = ask([*words, "--backbone", f"log={prompts}"], load=load_fake)
    return prompts.read_text() if status == 0 else ""


def two_tracks(root: Path) -> None:
    tracks = [("subrip", "eng", SAID), ("subrip", "ger", [(1.0, 2.0, "der Code ist sieben")])]
    with_subtitles(root / "talk.mkv", tracks)


def test_they_are_used_where_no_field_says_otherwise(root: Path) -> None:
    write(root, talk={}, talk_listed={"subtitles": "talk.srt"}, talk_none={"subtitles": None}, mute={})
    found = benchmarks.load("jsonl", root=root)
    own = {"talk": root / "talk.mkv", "talk_listed": root / "talk.srt", "talk_none": None, "mute": None}
    assert {item.id: item.subtitles for item in found.items} == own
    assert found.version == "embedded subtitles"
    # A folder that uses none keeps its run key.
    for name in ("talk.srt", None):
        write(root, talk={"subtitles": name}, mute={})
        assert benchmarks.load("jsonl", root=root).version == ""


def test_the_track_of_a_run_is_part_of_its_key(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_tracks(root)
    write(root, talk={})
    shown = ("--options", "subtitles=all")
    for track, name in ((None, "unset"), ("de", "german"), ("2", "two")):
        output = tmp_path / name
        prompts = run(root, output, *shown, *(("--subtitle-track", track) if track else ()))
        (trace,) = read_traces(output / "traces.jsonl")
        assert ("sieben" in prompts) is (name == "german")
        assert (trace.error is not None) is (name == "two")
        recorded = read_yaml(output / "config.yaml")
        assert recorded["identity"]["protocol"].get("subtitle_track") == track
    assert "has no subtitle track '2'; it has 0: srt (eng); 1: srt (ger)" in trace.error.message
    capsys.readouterr()
    # The same folder with another track is another run.
    assert not run(root, tmp_path / "german", *shown)
    assert "subtitle_track" in capsys.readouterr().err
    # No question has subtitles in its video, so there is no track.
    write(root, mute={}, talk_listed={"subtitles": "talk.srt"})
    assert not run(root, tmp_path / "run", "--subtitle-track", "eng")
    assert "--subtitle-track eng: jsonl has no questions with subtitles in" in capsys.readouterr().err


def test_ask_shows_the_track_that_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_tracks(root)
    assert "sieben" in asked(root, "--subtitle-track", "ger")
    assert not asked(root, "--subtitle-track", "fra")
    assert "no subtitle track 'fra'; it has 0: srt (eng); 1: srt (ger)" in capsys.readouterr().err
    assert not asked(root, "--subtitles", str(root / "talk.srt"), "--subtitle-track", "0")
    assert f"--subtitle-track 0: {root / 'talk.srt'} is not a video file" in capsys.readouterr().err
