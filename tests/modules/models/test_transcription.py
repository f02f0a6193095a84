"""Transcripts in chunks: right times across their ends, resumed, once for a content, damaged sound."""

from __future__ import annotations

import fcntl
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.loudness import SPEC, Loudness
from tests.support.making_videos import make
from tests.support.sounds import with_damaged_sound, with_tone
from videopro.modules.models import BrokenSound, TranscriptBusy, transcript_path, transcription
from videopro.video import Video

TONES = [(0.5, 1.5), (2.5, 3.5), (5.0, 6.0)]
"""What can be heard in `film` (s)."""


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("films") / "a.mkv"
    return with_tone(path, starts=tuple(start for start, _ in TONES), seconds=1.0)


def times(lines: tuple[object, ...]) -> list[tuple[float, float]]:
    return [(line.start, line.end) for line in lines]  # type: ignore[attr-defined]


def close_to(spans: list[tuple[float, float]]) -> list[object]:
    return [pytest.approx(span, abs=0.03) for span in spans]


# 3 s: the second tone lies across the first end. 2.5 s: it begins there.
@pytest.mark.parametrize("seconds", [60.0, 3.0, 2.5, 4.0])
def test_a_sentence_across_the_end_of_a_chunk_is_heard_once_and_whole(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(transcription, "CHUNK_SECONDS", seconds)
    speech = Loudness()
    made = speech.of(film, tmp_path)
    assert times(made.lines) == close_to(TONES)
    assert max(speech.heard) <= seconds
    assert made.sound_seconds == pytest.approx(6.0, abs=0.05)
    # What the first chunk was in, the others are in.
    assert speech.languages == [None, *["de"] * (len(speech.heard) - 1)]
    assert made.language == "de"


def test_chunks_that_cannot_be_joined_are_still_in_order(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcription, "CHUNK_SECONDS", 0.4)
    found = times(Loudness().of(film, tmp_path).lines)
    assert all(start <= end for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert sum(end - start for start, end in found) == pytest.approx(3.0, abs=0.15)


def test_an_interrupted_transcript_goes_on_and_is_made_once_for_a_content(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcription, "CHUNK_SECONDS", 3.0)
    with pytest.raises(KeyboardInterrupt):
        Loudness(stops_at=1).of(film, tmp_path)
    (part,) = tmp_path.iterdir()
    # A killed writer leaves half a line.
    part.write_bytes(part.read_bytes() + b'{"start": 2.5, "en')
    before = json.loads(part.read_text().splitlines()[0])["seconds"]
    speech = Loudness()
    made = speech.of(film, tmp_path)
    # Not the first 2.5 s again: 2.5 to 5.5 s, and what that cuts, from 5 s on.
    assert speech.heard == pytest.approx([3.0, 1.0], abs=0.05)
    assert times(made.lines) == close_to(TONES)
    assert made.seconds is not None
    assert made.seconds > before
    (file,) = tmp_path.iterdir()
    assert file == made.path
    # Under another name, and without the model.
    shutil.copy(film, tmp_path / "b.mkv")
    again = Loudness(stops_at=0).of(tmp_path / "b.mkv", tmp_path)
    assert again == made
    assert (made.is_new, again.is_new) == (True, False)
    prepared = made.preparation
    assert (prepared.kind, prepared.cost.seconds, prepared.is_known) == ("transcript", made.seconds, True)
    assert prepared.audio_seconds == made.sound_seconds


def test_while_another_process_is_at_a_video_one_does_not_wait(film: Path, tmp_path: Path) -> None:
    chunks = transcript_path(Video.open(film), SPEC, tmp_path).with_suffix(".chunks.jsonl")
    with chunks.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TranscriptBusy):
            Loudness().of(film, tmp_path, wait=False)


def test_silence_is_not_given_to_the_model(tmp_path: Path) -> None:
    """Neither that of a track that is silent, nor that of a video without one; both are results."""
    make(tmp_path / "mute.mp4", 8, rate=4)
    quiet = with_tone(tmp_path / "quiet.mkv", starts=(7.9,), seconds=0.0001)
    speech = Loudness(stops_at=0)
    silent, mute = (speech.of(path, tmp_path / "kept") for path in (quiet, tmp_path / "mute.mp4"))
    assert (silent.has_sound, silent.lines, silent.language) == (True, (), None)
    assert (mute.has_sound, mute.lines, mute.subtitles("x")) == (False, (), None)
    assert len(list((tmp_path / "kept").glob("*.json"))) == 2


def test_damaged_packets_are_counted_and_half_a_track_is_refused(tmp_path: Path) -> None:
    some = with_damaged_sound(tmp_path / "some.mkv", range(30, 40))
    made = Loudness().of(some, tmp_path / "kept")
    assert made.damaged == 10
    # 10 packets of 1024 samples are silent; what follows them has its own time.
    start, end = 30 * 1024 / 44_100, 40 * 1024 / 44_100
    first, second = times(made.lines)
    assert first == pytest.approx((0.0, start), abs=0.06)
    assert second == pytest.approx((end, 80 * 1024 / 44_100), abs=0.06)
    most = with_damaged_sound(tmp_path / "most.mkv", range(10, 80))
    with pytest.raises(BrokenSound, match=r"most.mkv: its audio track is damaged \(69 of 80 packets"):
        Loudness().of(most, tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1
