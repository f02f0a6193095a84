"""Speech recognition for videos without subtitles: Whisper, by transformers or by faster-whisper.

Off unless a setting or a preset asks for it, because a transcript is a model's guess.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from videopro.cli import needs_extra
from videopro.errors import ConfigError, SubtitleError
from videopro.modules.errors import ModelError
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.storage import encodable, parse_json, write_atomically
from videopro.video import SubtitleLine, Subtitles, Video
from videopro.video.decoding import Deadline, open_container, probe_video

SAMPLE_RATE = 16_000
"""Whisper's samples per second."""
# In samples. A shorter gap in the sound is a rounding error of the container.
_SLACK = SAMPLE_RATE // 20


class NoSound(SubtitleError):
    """A video has no sound to transcribe."""


class SpeechRecognizer(ABC):
    """Transcribes speech; thread-safe."""

    @abstractmethod
    def identity(self) -> object:
        """What its results depend on, as JSON-serializable data."""

    @abstractmethod
    def transcribe(self, sound: np.ndarray) -> list[SubtitleLine]:
        """Transcribe mono float32 samples at SAMPLE_RATE; times are in seconds from the first sample."""


class Whisper(SpeechRecognizer):
    """A Whisper checkpoint (such as `openai/whisper-large-v3-turbo`) in transformers."""

    def __init__(self, name: str, *, language: str | None = None, device: str | None = None) -> None:
        """`name`: a hub name or a local directory. `language` None: the model detects it. Raises ModelError
        if the model cannot be loaded."""
        from transformers import WhisperForConditionalGeneration, WhisperProcessor

        self._name = name
        self._language = language
        self._model, self._processor = load_pretrained(
            name, "speech model", WhisperForConditionalGeneration, WhisperProcessor
        )
        self._model.to(device_of(device)).eval()
        self._lock = threading.Lock()

    def identity(self) -> object:
        return ["whisper", self._name, self._language]

    def transcribe(self, sound: np.ndarray) -> list[SubtitleLine]:
        import torch

        with self._lock, torch.inference_mode():
            # Not truncated to the model's 30 s window: `generate` transcribes longer input window by window.
            inputs = self._processor(
                sound,
                sampling_rate=SAMPLE_RATE,
                return_tensors="pt",
                truncation=False,
                padding="max_length" if len(sound) <= 30 * SAMPLE_RATE else "longest",
                return_attention_mask=True,
            ).to(self._model.device, self._model.dtype)
            # Without a language the model detects it; English-only checkpoints refuse both settings.
            options = {"language": self._language, "task": "transcribe"} if self._language else {}
            output = self._model.generate(**inputs, return_timestamps=True, return_segments=True, **options)
            return [
                SubtitleLine(float(part["start"]), float(part["end"]), text)
                for part in output["segments"][0]
                if (text := self._processor.decode(part["tokens"], skip_special_tokens=True).strip())
            ]


class FasterWhisper(SpeechRecognizer):
    """Whisper in faster-whisper (CTranslate2): fast on a CPU."""

    def __init__(self, name: str, *, language: str | None = None, device: str | None = None) -> None:
        """`name`: a size ("small"), or a hub name or directory of a CTranslate2 model. Raises
        MissingExtra without the package, ModelError if the model cannot be loaded."""
        with needs_extra("speech", "speech=faster-whisper"):
            from faster_whisper import WhisperModel
        # CTranslate2 wants "cuda:1" in two parts.
        kind, _, number = (device or "auto").partition(":")
        try:
            self._model: Any = WhisperModel(name, device=kind, device_index=int(number or 0))
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(
                f"speech model {name!r} cannot be loaded: {str(error).splitlines()[0]}. Give a size such as "
                "small, or the directory of a CTranslate2 model"
            ) from error
        self._name = name
        self._language = language
        self._lock = threading.Lock()

    def identity(self) -> object:
        return ["faster-whisper", self._name, self._language]

    def transcribe(self, sound: np.ndarray) -> list[SubtitleLine]:
        with self._lock:
            # `parts` is lazy: the model runs while it is iterated, so keep the lock.
            parts, _ = self._model.transcribe(sound, language=self._language)
            return [
                SubtitleLine(part.start, part.end, part.text.strip()) for part in parts if part.text.strip()
            ]


def load_speech(spec: str, *, device: str | None = None) -> SpeechRecognizer:
    """Load a speech recognizer: "whisper:NAME" or "faster-whisper:NAME", optionally followed by "@LANGUAGE"
    ("@en"). Raises ConfigError for another `spec`."""
    kind, _, source = spec.partition(":")
    name, _, language = source.partition("@")
    if kind == "whisper" and name:
        return Whisper(name, language=language or None, device=device)
    if kind == "faster-whisper" and name:
        return FasterWhisper(name, language=language or None, device=device)
    raise ConfigError(
        f"speech {spec!r}: write whisper:NAME or faster-whisper:NAME, as in "
        "whisper:openai/whisper-large-v3-turbo@en"
    )


def transcript_path(video: Video, speech: SpeechRecognizer, root: Path) -> Path:
    """The file under `root` in which a video's transcript is stored."""
    key = json.dumps([video.id, speech.identity()], sort_keys=True)
    return root / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def transcribe_video(video: Video, speech: SpeechRecognizer, root: Path) -> Subtitles:
    """Transcribe a video; times are in seconds of the video. The transcript is stored under `root` by the
    video's content and the model, and reused; a damaged one is rebuilt, with a message on stderr. Raises
    NoSound for a video without sound, ConfigError if `root` cannot be written."""
    path = transcript_path(video, speech, root)
    source = f"{video.path}, transcribed by {speech.identity()}"
    try:
        rows = parse_json(path.read_text(encoding="utf-8"))
        return Subtitles(
            tuple(SubtitleLine(float(start), float(end), str(text)) for start, end, text in rows), source
        )
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError) as error:
        print(f"{path}: cannot be read as a transcript ({error}); transcribing again", file=sys.stderr)
    sound = extract_audio(video.path)
    # Whisper may write lines after the end of the sound.
    end = min(video.duration, len(sound) / SAMPLE_RATE)
    lines = tuple(
        SubtitleLine(line.start, min(line.end, end), encodable(line.text))
        for line in speech.transcribe(sound)
        if line.start < end
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([[line.start, line.end, line.text] for line in lines])
        write_atomically(path, text, shared=True)
    except OSError as error:
        raise ConfigError(
            f"the transcript cannot be written to {error.filename or path} ({error.strerror}); free some "
            "space there, or choose another directory (VIDEOPRO_CACHE)"
        ) from error
    return Subtitles(lines, source)


def extract_audio(path: Path, *, timeout: float = 600.0) -> np.ndarray:
    """The first audio track as mono float32 samples at SAMPLE_RATE, from the start of the video; gaps and a
    late start are filled with silence. `timeout` in seconds. Raises NoSound if there is no sound,
    VideoError for an unreadable file."""
    probe = probe_video(path, timeout)
    deadline = Deadline(timeout)
    parts: list[np.ndarray] = []
    length = 0

    def add(frames: Sequence[av.AudioFrame]) -> None:
        nonlocal length
        for frame in frames:
            samples = frame.to_ndarray().reshape(-1)
            parts.append(samples)
            length += len(samples)

    with open_container(path, deadline) as container:
        if not container.streams.audio:
            raise NoSound(f"{path} has no audio track; give a subtitle file, or run without subtitles")
        track = container.streams.audio[0]
        resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
        for frame in container.decode(track):
            deadline.check(path)
            if frame.pts is not None and frame.time_base is not None:
                at = round(float(frame.pts * frame.time_base - probe.origin) * SAMPLE_RATE)
                if at - length > _SLACK:
                    add(resampler.resample(None))
                    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
                    silence = max(0, at - length)
                    parts.append(np.zeros(silence, dtype=np.float32))
                    length += silence
            add(resampler.resample(frame))
        add(resampler.resample(None))
    if not length:
        raise NoSound(f"{path}: its audio track is empty; give a subtitle file")
    return np.concatenate(parts).astype(np.float32, copy=False)
