"""`videopro transcribe`: many videos with every kind of sound, subtitle files, a benchmark's videos."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.making_videos import make
from tests.support.sounds import Loudness, with_damaged_sound, with_tone
from videopro.commands.transcribe import main
from videopro.modules.models import SpeechSpec
from videopro.video import load_subtitles

SPEECH = ["--speech", "whisper:loudness"]


@pytest.fixture
def speech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loudness:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("videopro.commands.transcribe.check_needs", lambda needs: None)
    heard = Loudness()
    monkeypatch.setattr(SpeechSpec, "load", lambda spec, device=None: heard)
    return heard


def test_every_kind_of_video_is_counted_and_named_and_the_rest_goes_on(
    tmp_path: Path, speech: Loudness, capsys: pytest.CaptureFixture[str]
) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    with_tone(videos / "a.mkv", starts=(1.0, 3.0), seconds=1.0)
    shutil.copy(videos / "a.mkv", videos / "same.mkv")
    make(videos / "mute.mp4", 16, rate=4)
    with_damaged_sound(videos / "broken.mkv", range(5, 80))
    (videos / "no.mp4").write_text("nothing")
    assert main([str(videos), *SPEECH]) == 2
    done = capsys.readouterr()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in done.out.splitlines() if line.strip()}
    assert rows["a.mkv"].startswith("transcribed de 0.1 ")
    # The same video is heard once.
    assert rows["same.mkv"].startswith("existed de 0.1 ")
    assert len(speech.heard) == 1
    assert rows["mute.mp4"].startswith("no audio")
    assert rows["broken.mkv"].startswith("failed")
    assert "5 videos" in done.out
    assert "2 failed" in done.out
    head, broken, text = done.err.splitlines()[-3:]
    assert head == "not transcribed:"
    assert broken.startswith(f"  {videos / 'broken.mkv'}: its audio track is damaged")
    assert text.startswith(f"  {videos / 'no.mp4'}: FFmpeg cannot read it")
    assert f"error: {videos / 'broken.mkv'}: its audio track is damaged" in done.err
    assert f"error: {videos / 'no.mp4'}" in done.err
    assert done.out.splitlines()[-1].startswith(f"next: videopro ask {videos / 'a.mkv'}")
    assert "--options speech=whisper:loudness" in done.out
    # Those that can be heard decide, if there are any.
    assert main([str(videos), *SPEECH, "--skip-unreadable"]) == 0
    assert f"error: {videos / 'no.mp4'}" in capsys.readouterr().err
    assert main([str(videos / "no.mp4"), *SPEECH, "--skip-unreadable"]) == 2


def test_a_subtitle_file_can_be_corrected_and_is_not_written_over(
    tmp_path: Path, speech: Loudness, capsys: pytest.CaptureFixture[str]
) -> None:
    video = with_tone(tmp_path / "a.mkv", starts=(1.0, 3.0), seconds=1.0)
    for kind in ("srt", "vtt"):
        assert main([str(video), *SPEECH, "--write", kind, "--output", str(tmp_path / "texts")]) == 0
        lines = load_subtitles(tmp_path / f"texts/a.{kind}").lines
        assert [(line.start, line.end, line.text) for line in lines] == [
            (pytest.approx(1.0, abs=0.03), pytest.approx(2.0, abs=0.03), "loud"),
            (pytest.approx(3.0, abs=0.03), pytest.approx(4.0, abs=0.03), "loud"),
        ]
    assert f"{tmp_path / 'texts/a.vtt'}: written" in capsys.readouterr().out
    (tmp_path / "texts/a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\ncorrected\n")
    assert main([str(video), *SPEECH, "--write", "srt", "--output", str(tmp_path / "texts")]) == 0
    assert "kept the existing file" in capsys.readouterr().out
    assert load_subtitles(tmp_path / "texts/a.srt").text() == "corrected"
    make(tmp_path / "mute.mp4", 8, rate=4)
    assert main([str(tmp_path / "mute.mp4"), *SPEECH, "--write", "srt"]) == 0
    assert "not written, because there is no speech" in capsys.readouterr().out
    assert not (tmp_path / "mute.srt").exists()


def test_a_benchmarks_videos_without_subtitles_are_transcribed(
    tmp_path: Path, speech: Loudness, capsys: pytest.CaptureFixture[str]
) -> None:
    with_tone(tmp_path / "a.mkv", starts=(1.0,), seconds=1.0)
    with_tone(tmp_path / "b.mkv", starts=(2.0,), seconds=1.0)
    (tmp_path / "b.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nhello\n")
    asked: dict[str, object] = {"question": "Who?", "choices": ["x", "y"], "answer": "A"}
    questions = [{**asked, "id": name, "video": "a.mkv"} for name in "12"]
    questions.append({**asked, "id": "3", "video": "b.mkv", "subtitles": "b.srt"})
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    flags = ["--benchmark", "jsonl", "--root", str(tmp_path), *SPEECH, "--language", "de"]
    assert main(flags) == 0
    out = capsys.readouterr().out
    assert "1 video " in out
    assert "skipped 1 videos with listed subtitles" in out
    assert f"next: videopro infer --benchmark jsonl --root {tmp_path} --method videopro" in out
    assert "speech=whisper:loudness@de" in out
    # Of what a run asks, here its first questions, and a synthesis without those of the second video.
    with_tone(tmp_path / "c.mkv", starts=(3.0,), seconds=1.0)
    more = {**asked, "id": "4", "video": "c.mkv"}
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (*questions, more)))
    infer = {"benchmark": "jsonl", "root": str(tmp_path), "ids": ["1"], "model": "x", "output": "x"}
    synthesis = {
        "source": "jsonl",
        "root": str(tmp_path),
        "model": "x",
        "output": "x",
        "exclude": [str(tmp_path / "b")],
        "evaluation": "skip",
    }
    for name, config in {"infer": infer, "synthesis": synthesis}.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps(config))
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "b.mkv", tmp_path / "b/copy.mkv")
    for name, expected in (("infer", "1 existed"), ("synthesis", "1 transcribed")):
        assert main(["--asked-by", str(tmp_path / f"{name}.yaml"), *SPEECH, "--language", "de"]) == 0
        assert expected in capsys.readouterr().out
    assert main([*flags, "--subtitles", "none"]) == 0
    assert "3 videos" in capsys.readouterr().out
    assert len(speech.heard) == 3
