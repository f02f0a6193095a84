"""Transcripts of videos, made once and stored by the video's content and the model.

A video is heard in chunks of a few minutes, so that a long video is never in memory as a whole. A chunk ends
where the next one can begin without cutting a sentence, and is written as soon as it is done: a killed
command loses at most the chunk in hand. One process transcribes a video, others wait or do something else.
`Transcripts` are those of a run's setting `speech`, for videos that list no subtitles.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from videopro.cli import cache_root
from videopro.errors import ConfigError, VideoError, acquired
from videopro.modules.models.speech import (
    SAMPLE_RATE,
    BrokenSound,
    NoSound,
    SoundTrack,
    SpeechRecognizer,
    SpeechSpec,
    read_speech,
)
from videopro.modules.presets import NO_WHISPER, find_whisper
from videopro.storage import JsonLinesLog, encodable, write_atomically
from videopro.traces import Cost, Preparation
from videopro.video import SubtitleLine, Subtitles, Video

CHUNK_SECONDS = 300.0
# Seconds. A line that ends so near to the end of its chunk may have been cut.
_CUT = 1.0
# The loudest sample of a chunk that is silent (-60 dB): Whisper writes phrases into silence.
_SILENT = 1e-3
_FORMAT = 2

SPEECH_HELP = (
    "model to transcribe videos without subtitles: whisper:NAME, whisper (the one on this machine, if any) "
    "or none"
)
NO_TRANSCRIPT = "no transcript: the video has no audio"
BROKEN_SOUND = "no transcript: the audio of the video cannot be read"
SpeechProgress = Callable[[float, float], None]
"""Called with the seconds of audio that are done, and in total."""


class TranscriptBusy(Exception):
    """Another process is transcribing this video."""


@dataclass(frozen=True)
class Transcript:
    """What is said in a video. Without lines, nothing is."""

    path: Path
    """Where it is stored."""
    lines: tuple[SubtitleLine, ...]
    has_sound: bool = True
    language: str | None = None
    """The code that the model detected, or that was asked for."""
    sound_seconds: float = 0.0
    """How much sound was heard."""
    seconds: float = 0.0
    """How long that took, whichever process did it."""
    damaged: int = 0
    """Packets of the sound that could not be decoded."""
    is_new: bool = field(default=False, compare=False)
    """Whether it was made just now."""

    def subtitles(self, source: str) -> Subtitles | None:
        """The lines as subtitles from `source`; None for a video without sound."""
        if not self.has_sound:
            return None
        return Subtitles(self.lines, source, is_transcribed=True, id=self.id)

    @property
    def id(self) -> str:
        """Hash of the lines: what was heard, whenever and wherever it was."""
        return hashlib.sha256(json.dumps(_rows(self.lines)).encode()).hexdigest()[:32]

    @property
    def preparation(self) -> Preparation:
        """What it cost."""
        cost = Cost(seconds=self.seconds)
        return Preparation("transcript", self.path.stem, cost, audio_seconds=self.sound_seconds)


def transcript_path(video: Video, speech: SpeechSpec, root: Path) -> Path:
    """The file under `root` in which a video's transcript is stored."""
    key = json.dumps([video.id, speech.identity()], sort_keys=True)
    return root / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def transcribe_video(
    video: Video,
    speech: SpeechSpec,
    load: Callable[[], SpeechRecognizer],
    root: Path,
    *,
    progress: SpeechProgress = lambda done, total: None,
    wait: bool = True,
) -> Transcript:
    """The transcript of a video from `root`, or made and stored there; times are in seconds of the video. A
    damaged one is made again, with a message on stderr. `load`: gives the recognizer of `speech`, and is
    called only if something has to be heard.

    Raises BrokenSound for sound that cannot be read, ConfigError if `root` cannot be written, RunError for a
    full disk, and, unless it may `wait`, TranscriptBusy while another process transcribes this video.
    """
    path = transcript_path(video, speech, root)
    if (stored := read_transcript(path)) is not None:
        return stored
    chunks = path.with_suffix(".chunks.jsonl")
    try:
        # The turn at a video lasts until the log is closed; the kernel frees that of a killed process.
        with closing(JsonLinesLog(chunks, make_folder=True)) as log, log.locked() if wait else nullcontext():
            if not wait and not log.hold():
                raise TranscriptBusy(str(path))
            # The process that had the turn before may have made it.
            transcript = read_transcript(path)
            if transcript is None:
                try:
                    transcript = _transcribe(video, load, path, log, progress)
                except BrokenSound:
                    chunks.unlink(missing_ok=True)
                    raise
                write_atomically(path, json.dumps(_document(transcript, speech)), shared=True)
            chunks.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the transcript cannot be written to {error.filename or path} ({error.strerror}); free some "
            "space there, or choose another directory (VIDEOPRO_CACHE)"
        ) from error
    return transcript


@dataclass(frozen=True)
class _Chunk:
    """A part of the sound that is done."""

    start: float
    end: float
    """Where the next one begins (s)."""
    lines: tuple[SubtitleLine, ...]
    language: str | None
    seconds: float


def _transcribe(
    video: Video,
    load: Callable[[], SpeechRecognizer],
    path: Path,
    log: JsonLinesLog,
    progress: SpeechProgress,
) -> Transcript:
    done = _done_chunks(log)
    track = SoundTrack(video.path)
    heard = done[-1].end if done else 0.0
    try:
        for chunk in _chunks(video, load, track, done):
            log.append(_CHUNKS.dump_python(chunk))
            done.append(chunk)
            heard = chunk.end
            progress(min(heard, video.duration), video.duration)
    except NoSound:
        return Transcript(path, (), has_sound=False, seconds=0.0, is_new=True)
    except VideoError as error:
        # The video itself was opened.
        raise BrokenSound(str(error)) from error
    return Transcript(
        path,
        tuple(line for chunk in done for line in chunk.lines),
        language=_language(done),
        sound_seconds=heard,
        seconds=sum(chunk.seconds for chunk in done),
        damaged=track.damaged,
        is_new=True,
    )


def _chunks(
    video: Video, load: Callable[[], SpeechRecognizer], track: SoundTrack, done: list[_Chunk]
) -> Iterator[_Chunk]:
    """The chunks that are missing after those that are done, each as soon as it was heard."""
    at, language = done[-1].end if done else 0.0, _language(done)
    last = max((line.end for chunk in done for line in chunk.lines), default=0.0)
    pieces = _Pieces(track.blocks(video.duration))
    while True:
        began = time.monotonic()
        sound, is_last = pieces.take(at)
        if not len(sound):
            return
        start, end = at, at + len(sound) / SAMPLE_RATE
        lines: list[SubtitleLine] = []
        if np.abs(sound).max() > _SILENT:
            before = time.monotonic()
            recognizer = load()
            # Loading it is no cost of this video.
            began += time.monotonic() - before
            heard = recognizer.transcribe(sound, language)
            # A language that was detected where nothing is said says nothing.
            language = language or (heard.language if heard.lines else None)
            lines = _placed(heard.lines, start, end, last)
            # A sentence across the end is heard again, as a whole, by the next chunk.
            if not is_last and lines and lines[-1].end > end - _CUT and lines[-1].start > (start + end) / 2:
                end = lines.pop().start
        last = max((line.end for line in lines), default=last)
        at = end
        yield _Chunk(start, end, tuple(lines), language, time.monotonic() - began)
        if is_last:
            return


class _Pieces:
    """A sound in pieces of at most CHUNK_SECONDS."""

    def __init__(self, blocks: Iterator[np.ndarray]) -> None:
        self._blocks = blocks
        self._held = np.zeros(0, dtype=np.float32)
        self._end = 0
        """The number of the sample after those that are held."""

    def take(self, start: float) -> tuple[np.ndarray, bool]:
        """The samples from `start` (s) on, which is no earlier than before, and whether nothing follows."""
        at, size = round(start * SAMPLE_RATE), round(CHUNK_SECONDS * SAMPLE_RATE)
        held = [self._held]
        # One sample more than a piece shows that something follows.
        while self._end - at <= size and (block := next(self._blocks, None)) is not None:
            self._end += len(block)
            # What an earlier command heard is not kept: it may be an hour.
            held = [*held, block] if self._end > at else [self._held[:0]]
        samples = np.concatenate(held)
        self._held = samples[max(0, len(samples) - (self._end - at)) :]
        return self._held[:size], len(self._held) <= size


def _placed(lines: tuple[SubtitleLine, ...], start: float, end: float, last: float) -> list[SubtitleLine]:
    """The lines of a piece in seconds of the video, one after the other, from `last` on. Whisper may write
    lines after the end of the sound."""
    placed: list[SubtitleLine] = []
    for line in lines:
        begins = max(start + line.start, last)
        if begins >= end:
            break
        last = min(max(start + line.end, begins), end)
        placed.append(SubtitleLine(round(begins, 3), round(last, 3), encodable(line.text)))
    return placed


def _language(chunks: list[_Chunk]) -> str | None:
    return next((chunk.language for chunk in chunks if chunk.language is not None), None)


# ---- files ------------------------------------------------------------------------------------------------


def _done_chunks(log: JsonLinesLog) -> list[_Chunk]:
    """The chunks of an earlier command, up to one that is missing or damaged."""
    log.cut_torn_tail()
    by_start: dict[float, _Chunk] = {}
    for line in log.read().splitlines():
        with suppress(ValidationError):
            chunk = _CHUNKS.validate_json(line)
            by_start[chunk.start] = chunk
    done: list[_Chunk] = []
    # Each once: a damaged one may end where it began.
    while (next_one := by_start.pop(done[-1].end if done else 0.0, None)) is not None:
        done.append(next_one)
    return done


_CHUNKS = TypeAdapter(_Chunk)


@dataclass(frozen=True)
class _Document:
    """What a file holds of a transcript, without its format and its model, which are there for people."""

    language: str | None
    has_sound: bool
    sound_seconds: float
    seconds: float
    damaged: int
    lines: list[tuple[float, float, str]]


_DOCUMENTS = TypeAdapter(_Document)


def _document(transcript: Transcript, speech: SpeechSpec) -> dict[str, Any]:
    content = {each.name: getattr(transcript, each.name) for each in fields(_Document)}
    return {"format": _FORMAT, "model": speech.identity(), **content, "lines": _rows(transcript.lines)}


def read_transcript(path: Path) -> Transcript | None:
    """The transcript in a file; None if it is missing or damaged."""
    try:
        content = asdict(_DOCUMENTS.validate_json(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        reason = " ".join(str(error).split())
        print(f"{path}: cannot be read as a transcript ({reason}); transcribing again", file=sys.stderr)
        return None
    return Transcript(path, tuple(SubtitleLine(*row) for row in content.pop("lines")), **content)


def _rows(lines: tuple[SubtitleLine, ...]) -> list[list[float | str]]:
    return [[line.start, line.end, line.text] for line in lines]


@dataclass(frozen=True)
class Spoken:
    """The transcript of a video, if it is known."""

    subtitles: Subtitles | None = None
    prepared: tuple[Preparation, ...] = ()
    """The transcript, if there is one, with its cost."""
    notes: tuple[str, ...] = ()
    """Why a requested transcript is missing."""


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
        self._preparing = threading.Lock()

    def turn(self, file: Path) -> AbstractContextManager[object]:
        """The turn of a video whose transcript or index is not there yet; nothing waits for one that is. One
        video at a time is prepared: many that are decoded from end to end at once would fill the memory."""
        return nullcontext() if file.exists() else acquired(self._preparing)

    def of(self, video: Video) -> Spoken:
        """What is said in a video. Raises ConfigError for an unknown `speech`, ModelError for one that cannot
        be loaded, RunError for a full disk."""
        if self._lacks_whisper:
            return Spoken(notes=(NO_WHISPER,))
        if self.speech == "none":
            return Spoken()
        root = (self._root or cache_root()) / "speech"
        try:
            with self.turn(transcript_path(video, self._spec, root)):
                transcript = transcribe_video(video, self._spec, self._load, root)
        except BrokenSound:
            return Spoken(notes=(BROKEN_SOUND,))
        subtitles = transcript.subtitles(f"{video.path}, transcribed by {self.speech}")
        return Spoken(subtitles, (transcript.preparation,), () if transcript.has_sound else (NO_TRANSCRIPT,))

    @cached_property
    def _spec(self) -> SpeechSpec:
        return read_speech(self.speech)

    def _load(self) -> SpeechRecognizer:
        with acquired(self._loading):
            if self._recognizer is None:
                self._recognizer = self._spec.load()
            return self._recognizer


def stored_transcript_id(key: str) -> str | None:
    """Hash of the lines of the transcript that `Preparation.key` names; None if it is not on this machine."""
    transcript = read_transcript(cache_root() / "speech" / f"{key}.json")
    return None if transcript is None else transcript.id


def check_speech(name: str) -> None:
    """Raise ConfigError unless this is a setting of `speech`."""
    if name not in ("none", "whisper"):
        read_speech(name)


def speech_identity(name: str) -> dict[str, object]:
    """What a run's key hashes of a setting of `speech`."""
    resolved = resolve_speech(name)
    if resolved == "none":
        return {"speech": "none"}
    return {"speech": resolved, "speech_model": read_speech(resolved).identity()}


def resolve_speech(name: str) -> str:
    """A setting of `speech` with "whisper" replaced by the checkpoint that is on this machine, or "none"."""
    return (find_whisper() or "none") if name == "whisper" else name
