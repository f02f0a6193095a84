"""A speech recognizer whose result follows from the sound alone: a line for each stretch that is loud."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from videopro.modules.models import Heard, SpeechRecognizer, SpeechSpec, Transcript, transcribe_video
from videopro.modules.models.speech import SAMPLE_RATE
from videopro.video import SubtitleLine, Video

SPEC = SpeechSpec("whisper", "loudness")


class Loudness(SpeechRecognizer):
    """Its lines say "loud". `heard`: seconds of each piece; `stops_at`: the piece at which it is
    interrupted."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.heard: list[float] = []
        self.languages: list[str | None] = []
        self.stops_at = stops_at

    def transcribe(self, sound: np.ndarray, language: str | None = None) -> Heard:
        if len(self.heard) == self.stops_at:
            raise KeyboardInterrupt
        self.heard.append(len(sound) / SAMPLE_RATE)
        self.languages.append(language)
        # Hundredths of a second.
        size = SAMPLE_RATE // 100
        level = np.abs(sound[: len(sound) // size * size]).reshape(-1, size).max(axis=1)
        edges = np.flatnonzero(np.diff(np.r_[False, level > 0.05, False].astype(int)))
        lines = tuple(SubtitleLine(a / 100, b / 100, "loud") for a, b in edges.reshape(-1, 2).tolist())
        return Heard(lines, "de")

    def of(self, path: Path, root: Path, *, wait: bool = True) -> Transcript:
        """The transcript of a video."""
        return transcribe_video(Video.open(path), SPEC, lambda: self, root, wait=wait)
