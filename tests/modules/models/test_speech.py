"""Subtitles from audio: the samples that Whisper gets, its times, what is kept. In chunks: right times across
their ends, resumed, once for a content, damaged sound."""

import fcntl
import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support import tiny_models
from tests.support.making_videos import make
from tests.support.sounds import SPEC, TONE, Loudness, with_damaged_sound, with_tone
from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models import (
    BrokenSound,
    Heard,
    SpeechRecognizer,
    SpeechSpec,
    TranscriptBusy,
    read_speech,
    transcribe_video,
    transcript_path,
    transcription,
)
from videopro.modules.models.speech import SAMPLE_RATE, SoundTrack, Whisper
from videopro.video import SubtitleLine, Video


def loud(sound: np.ndarray, start: float, end: float) -> float:
    return float(np.abs(sound[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)]).mean())


def test_audio_keeps_its_place_in_the_video(tmp_path: Path) -> None:
    track = SoundTrack(with_tone(tmp_path / "a.mkv", starts=(1.5, 5.0), seconds=2.0))
    sound = np.concatenate(list(track.blocks()))
    assert sound.dtype == np.float32
    assert len(sound) == pytest.approx(7.0 * SAMPLE_RATE, abs=0.1 * SAMPLE_RATE)
    assert loud(sound, 0, 1.4) < 0.001
    assert loud(sound, 3.6, 4.9) < 0.001
    for start in (1.6, 5.1):
        # FFmpeg's mono of two equal channels is sqrt(2) times one of them (ITU-R BS.775: each by 0.7071).
        level = 12_000 / 32_768 * 2 / np.pi * 2**0.5
        assert loud(sound, start, start + 1.7) == pytest.approx(level, rel=0.03)
        piece = sound[round(start * SAMPLE_RATE) :][:SAMPLE_RATE]
        assert int(np.abs(np.fft.rfft(piece)).argmax()) == round(TONE)


class Counting(SpeechRecognizer):
    """Transcribes audio as given lines, and counts its calls."""

    def __init__(self, *lines: SubtitleLine, name: str = "counting") -> None:
        self.lines, self.spec, self.heard = lines, SpeechSpec("whisper", name), 0

    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        self.heard += 1
        return Heard(self.lines, "de")


def test_audio_is_transcribed_once_and_cut_to_the_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = Video.open(with_tone(tmp_path / "a.mkv", starts=(0.0,), seconds=7.5))
    kept = tmp_path / "kept"
    first, late = SubtitleLine(0.5, 1.25, "Grüße – 猫"), SubtitleLine(7.0, 9.5, "late")
    speech = Counting(first, late, SubtitleLine(7.8, 9.5, "imagined"))

    def lines(speech: Counting) -> tuple[SubtitleLine, ...]:
        return transcribe_video(video, speech.spec, lambda: speech, kept).lines

    said = lines(speech)
    assert said == (first, SubtitleLine(7.0, pytest.approx(7.5, abs=0.01), "late"))
    assert (lines(speech), speech.heard) == (said, 1)
    other = Counting(name="another")
    assert (lines(other), lines(other), other.heard) == ((), (), 1)
    damages = ("{broken", "[[0.5, 1.2", "[[null, 1.2, 3]]", "7", "[[0.5]]", "")
    for heard, damage in enumerate(damages, start=2):
        for path in kept.iterdir():
            path.write_text(damage)
        assert (lines(speech), speech.heard) == (said, heard)
        assert "transcribing again" in capsys.readouterr().err


def test_whisper_gives_the_times_and_texts_of_its_tokens() -> None:
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    name = str(tiny_models.whisper())
    sound = np.random.default_rng(0).normal(size=5 * SAMPLE_RATE).astype(np.float32)
    lines = Whisper(name, language="en", device="cpu").transcribe(sound).lines
    # The same from the tokens of a plain generation, their times read by hand: <|0.64|> text <|6.38|>.
    model = WhisperForConditionalGeneration.from_pretrained(name).eval()
    processor = WhisperProcessor.from_pretrained(name)
    heard = processor(sound, sampling_rate=SAMPLE_RATE, return_tensors="pt", return_attention_mask=True)
    with torch.inference_mode():
        (ids,) = model.generate(**heard, return_timestamps=True, language="en", task="transcribe")
    tokens = processor.tokenizer.convert_ids_to_tokens(ids.tolist())
    times = [i for i, token in enumerate(tokens) if re.fullmatch(r"<\|\d+\.\d\d\|>", token)]
    first, last = times[0], next(i for i in times if i > times[0])
    said = processor.tokenizer.decode(ids[first + 1 : last]).strip()
    assert said
    assert lines[0] == SubtitleLine(
        pytest.approx(float(tokens[first][2:-2])), pytest.approx(float(tokens[last][2:-2])), said
    )


def test_audio_longer_than_whispers_window_is_transcribed_to_its_end() -> None:
    sound = np.random.default_rng(0).normal(size=70 * SAMPLE_RATE).astype(np.float32)
    lines = Whisper(str(tiny_models.whisper()), language="en", device="cpu").transcribe(sound).lines
    assert max(line.end for line in lines) > 60
    assert [line.start for line in lines] == sorted(line.start for line in lines)


def test_invalid_models_and_specs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        read_speech(f"whisper:{tmp_path}").load()
    for spec in ("whisper", "whisper:", "ears:x", "whisper:@en"):
        with pytest.raises(ConfigError, match="whisper:NAME"):
            read_speech(spec)


def test_a_folder_is_named_by_its_weights_and_a_hub_name_by_itself(tmp_path: Path) -> None:
    """The same checkpoint in two folders hears a video once; other weights under its name hear it again."""
    for name, content in (("one", "a"), ("two", "a"), ("three", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.bin").write_text(content)
    one, two, three = (read_speech(f"whisper:{tmp_path / name}@en") for name in ("one", "two", "three"))
    assert one.identity() == two.identity() != three.identity()
    hub = "openai/whisper-small"
    assert read_speech(f"whisper:{hub}@en").identity() == ["whisper", hub, "en"]
    assert read_speech(f"whisper:{hub}").identity() == ["whisper", hub, None]


# ---- in chunks ---------------------------------------------------------------------------------------------


TONES = [(0.5, 1.5), (2.5, 3.5), (5.0, 6.0)]
"""What can be heard in `video` (s)."""


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos") / "a.mkv"
    return with_tone(path, starts=tuple(start for start, _ in TONES), seconds=1.0)


def times(lines: tuple[object, ...]) -> list[tuple[float, float]]:
    return [(line.start, line.end) for line in lines]  # type: ignore[attr-defined]


def close_to(spans: list[tuple[float, float]]) -> list[object]:
    return [pytest.approx(span, abs=0.03) for span in spans]


# 3 s: the second tone lies across the first end. 2.5 s: it begins there.
@pytest.mark.parametrize("seconds", [60.0, 3.0, 2.5, 4.0])
def test_a_sentence_across_the_end_of_a_chunk_is_heard_once_and_whole(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(transcription, "CHUNK_SECONDS", seconds)
    speech = Loudness()
    made = speech.of(video, tmp_path)
    assert times(made.lines) == close_to(TONES)
    assert max(speech.heard) <= seconds
    assert made.sound_seconds == pytest.approx(6.0, abs=0.05)
    # What the first chunk was in, the others are in.
    assert speech.languages == [None, *["de"] * (len(speech.heard) - 1)]
    assert made.language == "de"


def test_chunks_that_cannot_be_joined_are_still_in_order(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcription, "CHUNK_SECONDS", 0.4)
    found = times(Loudness().of(video, tmp_path).lines)
    assert all(start <= end for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert sum(end - start for start, end in found) == pytest.approx(3.0, abs=0.15)


def test_an_interrupted_transcript_goes_on_and_is_made_once_for_a_content(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcription, "CHUNK_SECONDS", 3.0)
    with pytest.raises(KeyboardInterrupt):
        Loudness(stops_at=1).of(video, tmp_path)
    (part,) = tmp_path.iterdir()
    # A killed writer leaves half a line.
    part.write_bytes(part.read_bytes() + b'{"start": 2.5, "en')
    before = json.loads(part.read_text().splitlines()[0])["seconds"]
    speech = Loudness()
    made = speech.of(video, tmp_path)
    # Not the first 2.5 s again: 2.5 to 5.5 s, and what that cuts, from 5 s on.
    assert speech.heard == pytest.approx([3.0, 1.0], abs=0.05)
    assert times(made.lines) == close_to(TONES)
    assert made.seconds is not None
    assert made.seconds > before
    (file,) = tmp_path.iterdir()
    assert file == made.path
    # Under another name, and without the model.
    shutil.copy(video, tmp_path / "b.mkv")
    again = Loudness(stops_at=0).of(tmp_path / "b.mkv", tmp_path)
    assert again == made
    assert (made.is_new, again.is_new) == (True, False)
    prepared = made.preparation
    assert (prepared.kind, prepared.cost.seconds, prepared.is_known) == ("transcript", made.seconds, True)
    assert prepared.audio_seconds == made.sound_seconds


def test_while_another_process_is_at_a_video_one_does_not_wait(video: Path, tmp_path: Path) -> None:
    chunks = transcript_path(Video.open(video), SPEC, tmp_path).with_suffix(".chunks.jsonl")
    with chunks.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TranscriptBusy):
            Loudness().of(video, tmp_path, wait=False)


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
