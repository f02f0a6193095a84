"""The transcripts that a run uses: of the videos that list no subtitles, made where they are missing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from videopro.cli import cache_root
from videopro.errors import acquired
from videopro.modules.presets import NO_WHISPER, find_whisper
from videopro.traces import Preparation
from videopro.video import Subtitles, Video

if TYPE_CHECKING:
    from videopro.modules.models import SpeechRecognizer, SpeechSpec

SPEECH_HELP = (
    "transcribes videos without subtitles: whisper:NAME, faster-whisper:NAME, whisper (the one on this "
    "machine, if any) or none"
)
NO_TRANSCRIPT = "no transcript: the video has no sound"
BROKEN_SOUND = "no transcript: the sound of the video cannot be read"


@dataclass(frozen=True)
class Spoken:
    """What is said in a video, as far as it is known."""

    subtitles: Subtitles | None = None
    prepared: tuple[Preparation, ...] = ()
    """The transcript, if there is one, with its cost."""
    notes: tuple[str, ...] = ()
    """Why there is none, where one was asked for."""


class Transcripts:
    """The transcripts under a setting of `speech`. The recognizer is loaded once, when something has to be
    heard. Thread-safe."""

    def __init__(self, speech: str, root: Path | None = None) -> None:
        """`root`: the cache; None: `cache_root()`."""
        self.speech = resolve_speech(speech)
        """The setting with "whisper" replaced."""
        self._lacks_whisper = speech != self.speech == "none"
        self._root = root
        self._recognizer: SpeechRecognizer | None = None
        self._loading = threading.Lock()
        # One video at a time is transcribed: many that are decoded from end to end at once would fill the
        # memory.
        self._making = threading.Lock()

    def of(
        self, video: Video, turn: Callable[[Path], AbstractContextManager[object]] | None = None
    ) -> Spoken:
        """What is said in a video. `turn`: waits for the turn to make a file that is not there. Raises
        ConfigError for an unknown `speech`, ModelError for one that cannot be loaded, RunError for a full
        disk."""
        if self._lacks_whisper:
            return Spoken(notes=(NO_WHISPER,))
        if self.speech == "none":
            return Spoken()
        from videopro.modules.models import BrokenSound, transcribe_video, transcript_path

        speech = self._spec
        root = (cache_root() if self._root is None else self._root) / "speech"
        try:
            with (turn or self._turn)(transcript_path(video, speech, root)):
                transcript = transcribe_video(video, speech, self._load, root)
        except BrokenSound:
            return Spoken(notes=(BROKEN_SOUND,))
        subtitles = transcript.subtitles(f"{video.path}, transcribed by {self.speech}")
        return Spoken(subtitles, (transcript.preparation,), () if transcript.has_sound else (NO_TRANSCRIPT,))

    def _turn(self, file: Path) -> AbstractContextManager[object]:
        return nullcontext() if file.exists() else acquired(self._making)

    @cached_property
    def _spec(self) -> SpeechSpec:
        from videopro.modules.models import read_speech

        return read_speech(self.speech)

    def _load(self) -> SpeechRecognizer:
        with acquired(self._loading):
            if self._recognizer is None:
                self._recognizer = self._spec.load()
            return self._recognizer


def stored_transcript_id(key: str) -> str | None:
    """Hash of the lines of the transcript that `Preparation.key` names; None if it is not on this machine."""
    from videopro.modules.models import read_transcript

    transcript = read_transcript(cache_root() / "speech" / f"{key}.json")
    return None if transcript is None else transcript.id


def check_speech(name: str) -> None:
    """Raise ConfigError unless this is a setting of `speech`."""
    if name not in ("none", "whisper"):
        from videopro.modules.models import read_speech

        read_speech(name)


def speech_identity(name: str) -> dict[str, object]:
    """What a run's key hashes of a setting of `speech`."""
    resolved = resolve_speech(name)
    if resolved == "none":
        return {"speech": "none"}
    from videopro.modules.models import read_speech

    return {"speech": resolved, "speech_model": read_speech(resolved).identity()}


def resolve_speech(name: str) -> str:
    """A setting of `speech` with "whisper" replaced by the checkpoint that is on this machine, or "none"."""
    return (find_whisper() or "none") if name == "whisper" else name
