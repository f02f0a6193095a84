"""Subtitles from audio: the samples that Whisper gets, its times, what is kept."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support import tiny_models
from tests.support.making_videos import make
from tests.support.sounds import TONE, with_tone
from videopro.errors import ConfigError, SubtitleError
from videopro.modules.errors import ModelError
from videopro.modules.models import (
    Heard,
    SpeechRecognizer,
    SpeechSpec,
    read_speech,
    transcribe_video,
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


def test_a_video_without_sound_says_so(tmp_path: Path) -> None:
    make(tmp_path / "mute.mp4", 8, rate=4)
    with pytest.raises(SubtitleError, match="has no audio track"):
        list(SoundTrack(tmp_path / "mute.mp4").blocks())


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
    """The same checkpoint in two folders hears a film once; other weights under its name hear it again."""
    for name, content in (("one", "a"), ("two", "a"), ("three", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.bin").write_text(content)
    one, two, three = (read_speech(f"whisper:{tmp_path / name}@en") for name in ("one", "two", "three"))
    assert one.identity() == two.identity() != three.identity()
    hub = "openai/whisper-small"
    assert read_speech(f"whisper:{hub}@en").identity() == ["whisper", hub, "en"]
    assert read_speech(f"whisper:{hub}").identity() == ["whisper", hub, None]
