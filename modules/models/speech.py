"""Speech recognition for videos without subtitles: Whisper, by transformers or by faster-whisper.

Off unless a setting or a preset asks for it, because a transcript is a model's guess.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from videopro.backbones import folder_fingerprint
from videopro.cli import did_you_mean, needs_extra
from videopro.errors import ConfigError, acquired, check_cancelled
from videopro.modules.errors import ModelError
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.modules.models.sound import SAMPLE_RATE
from videopro.plugins import Registry
from videopro.video import SubtitleLine

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
        self._language = checked_language(language, codes if self._is_multilingual else ["en"], name)
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
            decode = self._processor.decode
            lines = (
                SubtitleLine(
                    float(part["start"]),
                    float(part["end"]),
                    decode(part["tokens"], skip_special_tokens=True).strip(),
                )
                for part in output["segments"][0]
            )
            return Heard(_with_text(lines), spoken)

    def _detected(self, features: Any) -> str:
        """The code of the language of the first window."""
        window = self._model.config.max_source_positions * 2
        (token,) = self._model.detect_language(features[:, :, :window]).tolist()
        names = {number: name for name, number in self._model.generation_config.lang_to_id.items()}
        return str(names[token]).strip("<|>")


class FasterWhisper(SpeechRecognizer):
    """Whisper in faster-whisper (CTranslate2): fast on a CPU."""

    def __init__(self, name: str, *, language: str | None = None, device: str | None = None) -> None:
        """`name`: a size ("small"), or a hub name or directory of a CTranslate2 model. Raises
        MissingExtra without the package, ModelError if the model cannot be loaded, ConfigError for a language
        that it does not know."""
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
        self._language = checked_language(language, self._model.supported_languages, name)
        self._lock = threading.Lock()

    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        with acquired(self._lock):
            # `parts` is lazy: the model runs while it is iterated, so keep the lock.
            # Without its filter for voices, it tries again and again to read words out of silence.
            parts, about = self._model.transcribe(sound, language=self._language or language, vad_filter=True)
            lines = _with_text(
                SubtitleLine(part.start, part.end, part.text.strip()) for part in _until_cancelled(parts)
            )
            return Heard(lines, about.language)


def _until_cancelled(parts: Iterable[Any]) -> Iterator[Any]:
    for part in parts:
        check_cancelled()
        yield part


def _goes_on(tokens: Any, scores: Any, **options: Any) -> Any:
    """A criterion for stopping that stops no reply. Raises Cancelled."""
    check_cancelled()
    return tokens.new_zeros(len(tokens), dtype=bool)


def _with_text(lines: Iterable[SubtitleLine]) -> tuple[SubtitleLine, ...]:
    return tuple(line for line in lines if line.text)


def checked_language(language: str | None, codes: Iterable[str], model: str) -> str | None:
    """The code of a language. Raises ConfigError if it is none of the model's `codes`."""
    languages = sorted(codes)
    if language is None or language in languages:
        return language
    raise ConfigError(
        f"language {language!r}: speech model {model!r} does not know this code; "
        f"{did_you_mean(language, languages)}"
    )


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
    {"whisper": Whisper, "faster-whisper": FasterWhisper},
    what="a class that derives from SpeechRecognizer (videopro.modules.models) and takes a model's name",
)


def read_speech(spec: str) -> SpeechSpec:
    """The parts of "whisper:NAME" or "faster-whisper:NAME", optionally followed by "@LANGUAGE" ("@en").
    Raises ConfigError for another `spec`."""
    kind, _, source = spec.partition(":")
    name, _, language = source.partition("@")
    if kind in TRANSCRIBERS and name:
        version = TRANSCRIBERS.find(kind).version
        return SpeechSpec(kind, name, language or None, version)
    raise ConfigError(
        f"speech {spec!r}: write whisper:NAME or faster-whisper:NAME, as in "
        "whisper:openai/whisper-large-v3-turbo@en"
    )
