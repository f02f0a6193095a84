"""Speech recognition for videos without subtitles: Whisper, and the sound that it hears, piece by piece.

Off unless a setting or a preset asks for it, because a transcript is a model's guess.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import av
import av.error
import numpy as np

from videopro.backbones import folder_fingerprint
from videopro.cli import did_you_mean
from videopro.errors import ConfigError, SubtitleError, acquired, check_cancelled
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.plugins import Registry
from videopro.video import SubtitleLine
from videopro.video.decoding import Deadline, open_container, probe_video

SAMPLE_RATE = 16_000
"""Whisper's samples per second."""
# In samples. A shorter gap in the sound is a rounding error of the container.
_SLACK = SAMPLE_RATE // 20
# Samples of silence in one block, so that a sound that starts after an hour takes no memory before it.
_SILENT_BLOCK = 10 * SAMPLE_RATE


class NoSound(SubtitleError):
    """A video has no sound to transcribe."""


class BrokenSound(SubtitleError):
    """A video has a sound track that cannot be read."""


class SoundTrack:
    """The first audio track of a video file."""

    def __init__(self, path: Path, *, timeout: float = 600.0) -> None:
        """`timeout`: seconds that reading may take without a new block."""
        self._path = path
        self._timeout = timeout
        self._packets = 0
        self.damaged = 0
        """Packets that could not be decoded so far; their time is silent."""

    def blocks(self, until: float = math.inf) -> Iterator[np.ndarray]:
        """Blocks of float32 samples that follow one another without gaps, from the start of the video to
        `until` (s) or the end of the sound; gaps and a late start are silence. Raises NoSound if there is no
        sound, BrokenSound if more than half of it is damaged, VideoError for an unreadable file."""
        length, last = 0, math.inf if math.isinf(until) else round(until * SAMPLE_RATE)
        for block in self._all_blocks():
            part = block if length + len(block) <= last else block[: int(last) - length]
            length += len(part)
            if len(part):
                yield part.astype(np.float32, copy=False)
            if length >= last:
                break
        if self.damaged * 2 > self._packets:
            raise BrokenSound(
                f"{self._path}: its audio track is damaged ({self.damaged} of {self._packets} packets cannot "
                "be decoded); download it again, or pass a subtitle file"
            )
        if not length:
            raise NoSound(f"{self._path}: its audio track is empty; pass a subtitle file")

    def _all_blocks(self) -> Iterator[np.ndarray]:
        probe = probe_video(self._path, self._timeout)
        deadline, length = Deadline(self._timeout), 0
        with open_container(self._path, deadline) as container:
            if not container.streams.audio:
                raise NoSound(
                    f"{self._path} has no audio track; pass a subtitle file, or run without subtitles"
                )
            track = container.streams.audio[0]
            if track.codec_context is None:
                raise BrokenSound(
                    f"{self._path}: this build of FFmpeg has no decoder for its audio; convert it to AAC"
                )
            for stream in container.streams:
                if stream.index != track.index:
                    stream.discard = av.stream.Discard.all
            resampler = _Resampler()
            for frame in self._frames(container, track, deadline):
                if frame.pts is not None and frame.time_base is not None:
                    at = round(float(frame.pts * frame.time_base - probe.origin) * SAMPLE_RATE)
                    if at - length > _SLACK:
                        for block in resampler.add(None):
                            length += len(block)
                            yield block
                        while length < at:
                            silence = np.zeros(min(at - length, _SILENT_BLOCK), dtype=np.float32)
                            length += len(silence)
                            yield silence
                            # Not the time that the receiver took.
                            deadline.renew()
                for block in resampler.add(frame):
                    length += len(block)
                    yield block
                    deadline.renew()
            yield from resampler.add(None)

    def _frames(
        self, container: av.container.InputContainer, track: Any, deadline: Deadline
    ) -> Iterator[av.AudioFrame]:
        for packet in container.demux(track):
            deadline.check(self._path)
            self._packets += 1
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                # One bad packet is no reason to lose an hour of speech: it is counted.
                self.damaged += 1
                continue
            yield from frames


class _Resampler:
    """Mono float samples at SAMPLE_RATE from frames of any format."""

    def __init__(self) -> None:
        self._inner: av.AudioResampler | None = None

    def add(self, frame: av.AudioFrame | None) -> list[np.ndarray]:
        """The samples of a frame. None: what is still held, after which it starts afresh."""
        if self._inner is None:
            self._inner = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
        try:
            frames = self._inner.resample(frame)
        except ValueError:
            # The format changes within the track, as in a recording of a broadcast.
            return [*self.add(None), *self.add(frame)]
        if frame is None:
            self._inner = None
        return [part.to_ndarray().reshape(-1) for part in frames]


_WINDOW = 30 * SAMPLE_RATE
# OpenAI's own (whisper/transcribe.py): nothing is said in a window if the token for that is more likely than
# the first, and the text less likely (mean log probability) than the second.
_NO_SPEECH, _UNLIKELY_TEXT = 0.6, -1.0


@dataclass(frozen=True)
class Heard:
    """What is said in a piece of sound."""

    lines: tuple[SubtitleLine, ...] = ()
    """Times are in seconds from the first sample."""
    language: str | None = None
    """The code of the language, such as "en"; None: the model names none."""


class SpeechRecognizer(ABC):
    """Transcribes speech; thread-safe."""

    @abstractmethod
    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        """Transcribe mono float32 samples at SAMPLE_RATE. `language`: what an earlier piece of the same video
        was in, unless the recognizer has a fixed one; None: the model detects it."""


class Whisper(SpeechRecognizer):
    """A Whisper checkpoint (such as `openai/whisper-large-v3-turbo`) in transformers."""

    def __init__(self, name: str, *, language: str | None = None, device: str | None = None) -> None:
        """`name`: a hub name or a local directory. `language` None: the model detects it. Raises ModelError
        if the model cannot be loaded, ConfigError for a language that it does not know."""
        from transformers import WhisperForConditionalGeneration, WhisperProcessor

        self._model, self._processor = load_pretrained(
            name, "speech model", WhisperForConditionalGeneration, WhisperProcessor
        )
        self._model.to(device_of(device)).eval()
        options = self._model.generation_config
        self._is_multilingual = bool(getattr(options, "is_multilingual", False))
        codes = [token.strip("<|>") for token in getattr(options, "lang_to_id", None) or {}]
        languages = sorted(codes) if self._is_multilingual else ["en"]
        if language is not None and language not in languages:
            raise ConfigError(
                f"language {language!r}: speech model {name!r} does not support it; "
                f"{did_you_mean(language, languages)}"
            )
        self._language = language
        self._lock = threading.Lock()

    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        import torch

        with acquired(self._lock), torch.inference_mode():
            # Not truncated to the model's 30 s window: `generate` transcribes longer input window by window.
            inputs = self._processor(
                sound,
                sampling_rate=SAMPLE_RATE,
                return_tensors="pt",
                truncation=False,
                padding="max_length" if len(sound) <= _WINDOW else "longest",
                return_attention_mask=True,
            ).to(self._model.device, self._model.dtype)
            options: dict[str, Any] = {}
            spoken = "en"
            # English-only checkpoints refuse both settings.
            if self._is_multilingual:
                spoken = self._language or language or self._detected(inputs["input_features"])
                options = {"language": spoken, "task": "transcribe"}
            output = self._model.generate(
                **inputs,
                return_timestamps=True,
                return_segments=True,
                temperature=0.0,
                no_speech_threshold=_NO_SPEECH,
                logprob_threshold=_UNLIKELY_TEXT,
                stopping_criteria=[_goes_on],
                **options,
            )
            texts = [
                self._processor.decode(part["tokens"], skip_special_tokens=True).strip()
                for part in output["segments"][0]
            ]
            lines = [
                SubtitleLine(float(part["start"]), float(part["end"]), text)
                for part, text in zip(output["segments"][0], texts, strict=True)
                if text
            ]
            return Heard(tuple(lines), spoken)

    def _detected(self, features: Any) -> str:
        """The code of the language of the first window."""
        window = self._model.config.max_source_positions * 2
        (token,) = self._model.detect_language(features[:, :, :window]).tolist()
        names = {number: name for name, number in self._model.generation_config.lang_to_id.items()}
        return str(names[token]).strip("<|>")


def _goes_on(tokens: Any, scores: Any, **options: Any) -> Any:
    """A criterion for stopping that stops no reply. Raises Cancelled."""
    check_cancelled()
    return tokens.new_zeros(len(tokens), dtype=bool)


@dataclass(frozen=True)
class SpeechSpec:
    """A setting of `speech` in its parts."""

    kind: str
    """A name of TRANSCRIBERS."""
    name: str
    language: str | None = None
    version: str = ""
    """Of a plug-in."""

    def identity(self) -> object:
        """What transcripts depend on, as JSON-serializable data. Nothing is loaded for it, so that a machine
        without the model can read what is there. A folder is named by its contents."""
        return [self.kind, self._weights, self.language, *filter(None, [self.version])]

    @cached_property
    def _weights(self) -> str:
        # Once: it is asked for with every question about a video.
        folder = Path(self.name).expanduser()
        return folder_fingerprint(folder) if folder.is_dir() else self.name

    def load(self, device: str | None = None) -> SpeechRecognizer:
        """The recognizer. Raises ModelError or ConfigError."""
        return TRANSCRIBERS[self.kind](self.name, language=self.language, device=device)


TRANSCRIBERS: Registry[Callable[..., SpeechRecognizer]] = Registry(
    "transcriber",
    lambda value: isinstance(value, type) and issubclass(value, SpeechRecognizer),
    {"whisper": Whisper},
    what="a subclass of SpeechRecognizer (videopro.modules.models) that takes a model name",
)


def read_speech(spec: str) -> SpeechSpec:
    """The parts of "whisper:NAME", optionally followed by "@LANGUAGE" ("@en"). Raises ConfigError for another
    `spec`."""
    kind, _, source = spec.partition(":")
    name, _, language = source.partition("@")
    if kind in TRANSCRIBERS and name:
        version = TRANSCRIBERS.find(kind).version
        return SpeechSpec(kind, name, language or None, version)
    raise ConfigError(f"speech {spec!r}: write whisper:NAME, as in whisper:openai/whisper-large-v3-turbo@en")
