"""The multi-granular database of a video: captioned clips, the subject registry, search in captions (section
3.1).

A clip is written to the database's file as soon as it is captioned, so that a killed build loses at most the
clips in flight, and every line says what it cost. One process builds, others wait for it. Frames are not
stored: they are decoded from the video when a tool asks for them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from videopro.backbones.server import RequestRefused
from videopro.errors import (
    QUESTION_ERRORS,
    BackboneError,
    NativeError,
    VideoProError,
    carrying_cancellation,
    unexpected_as,
)
from videopro.methods.agents import AgentModel, Budget, Session
from videopro.methods.dvd import prompts
from videopro.methods.dvd.database_file import (
    CaptionedClip,
    CaptionReply,
    CaptionSearch,
    Lines,
    MergedRegistry,
    MergeReply,
    SubjectRegistry,
    SubjectReply,
    merged,
    read_lines,
)
from videopro.methods.dvd.settings import DvdSettings
from videopro.modules.models.encoders import TextEncoder
from videopro.modules.search import clip_bounds
from videopro.question import Question
from videopro.question import prompts as shared_prompts
from videopro.storage import JsonLinesLog
from videopro.traces import Cost, Preparation, SharedClock
from videopro.video import Subtitles, Video, fps_times, may_stand_in, stand_ins_in

# What servers (OpenAI, vLLM, SGLang, llama.cpp, TGI, Gemini) and local backbones say of a prompt that is too
# long. There is no code that all of them send.
_MESSAGE = re.compile(
    r"context|too (?:long|large)|longer than|exceed|must have less than|out of memory", re.I
)
_STATUSES = (400, 413, 422)


def is_too_long(error: BackboneError) -> bool:
    """Whether a model says that a request is longer than it takes, or that it ran out of memory."""
    if isinstance(error, RequestRefused) and error.status not in _STATUSES:
        return False
    return _MESSAGE.search(str(error)) is not None


def clip_borders(
    duration: float, settings: DvdSettings, subtitles: Subtitles | None
) -> list[tuple[float, float]]:
    """(start, end) in seconds of each clip, without gaps. With segmentation "transcript", a border moves to
    the nearest end of a subtitle line, if there is one within half a clip, so as to cut no sentence."""
    bounds = list(clip_bounds(duration, settings.clip_seconds))
    if settings.segmentation == "uniform" or subtitles is None:
        return bounds
    ends = sorted({line.end for line in subtitles.lines if 0 < line.end < duration})
    borders = [0.0]
    for _, border in bounds[:-1]:
        # Within half a clip, so that two borders never swap.
        near = [end for end in ends if abs(end - border) < settings.clip_seconds / 2]
        borders.append(min(near, key=lambda end: abs(end - border), default=border))
    return list(pairwise([*borders, duration]))


def spoken_in(subtitles: Subtitles | None, start: float, end: float) -> str:
    """What is said in a clip: the lines that begin in it, so that each line belongs to one clip."""
    if subtitles is None:
        return ""
    return " ".join(line.text for line in subtitles.lines if start <= line.start < end)


CAPTIONER = "captioner"
_NO_ROOM = "its request exceeds the captioner's context"


@dataclass(frozen=True)
class Database:
    """A finished database. Thread-safe."""

    clips: tuple[CaptionedClip, ...]
    registry: SubjectRegistry
    search: CaptionSearch = field(repr=False)
    preparation: Preparation
    notes: tuple[str, ...] = ()
    """What could not be parsed, for the notes of every question."""


@dataclass(frozen=True)
class DatabaseBuilder:
    """Builds or loads the database of one video."""

    video: Video
    model: AgentModel
    settings: DvdSettings
    subtitles: Subtitles | None
    root: Path
    text_encoder: TextEncoder | None = None
    seed: int = 0

    def build(self) -> Database:
        """Load what is there and make the rest. Raises VideoError, BackboneError, and RunError for a file
        that cannot be written."""
        path = self.path()
        bounds = clip_borders(self.video.duration, self.settings, self.subtitles)
        with closing(JsonLinesLog(path, make_folder=True)) as log, log.locked():
            lines = read_lines(path, bounds)
            missing = [number for number in range(len(bounds)) if not self._fits(lines.clips.get(number))]
            if lines.damaged and missing:
                message = f"{lines.damaged} damaged lines; captioning {len(missing)} clips again"
                print(f"{path}: {message}", file=sys.stderr)
            for clip in self._captioned(missing, bounds, lines):
                log.append(clip.model_dump(mode="json"))
                lines.add(clip)
            clips = [lines.clips[number] for number in range(len(bounds))]
            if self.settings.registry == "parallel" and lines.registry is None:
                # After all clips: which names are one subject shows only over the whole video.
                lines.registry = self._merge(clips)
                log.append(lines.registry.model_dump(mode="json"))
        return self._finished(path.stem, clips, lines)

    def path(self) -> Path:
        """The database's file: one for each video and everything that its lines depend on. The encoder of its
        captions is none of it."""
        settings, subtitles = self.settings, self.subtitles
        spoken = [] if subtitles is None else [asdict(line) for line in subtitles.lines]
        sampling = ("temperature", "max_new_tokens")
        identity = {
            "prompts": prompts.DATABASE_PROMPTS,
            "captioner": self.model.identity(),
            "frames": self.model.frames,
            "settings": {
                name: getattr(settings, name)
                for name in ("clip_seconds", "fps", "registry", "segmentation", *sampling)
            },
            # Greedy captions depend on no seed: runs with several of them share a database.
            "seed": self.seed if settings.temperature > 0 else 0,
            "spoken": hashlib.sha256(json.dumps(spoken).encode()).hexdigest(),
        }
        if settings.registry == "none":
            # The prompt of every plain caption, which DATABASE_PROMPTS does not count.
            identity["caption"] = shared_prompts.caption()
        key = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return self.root / self.video.id / f"{key}.jsonl"

    def _fits(self, clip: CaptionedClip | None) -> bool:
        """Whether a stored clip is there, and of frames that this run may see."""
        return clip is not None and may_stand_in(clip.stand_ins, self.video.nearest_intact)

    def _finished(self, key: str, clips: Sequence[CaptionedClip], lines: Lines) -> Database:
        costs = [line.cost for line in (*clips, lines.registry) if line is not None]
        notes = []
        if unparsed := sum(bool(clip.fault) for clip in clips):
            notes.append(f"{unparsed} of {len(clips)} clips in the database have no caption: unparsed")
        if lines.registry is not None and lines.registry.fault:
            notes.append(
                "the subjects in the database were merged by name only; the merge request failed: "
                f"{lines.registry.fault}"
            )
        registry = _by_name(clips) if lines.registry is None else SubjectRegistry(lines.registry.registry)
        stand_ins = tuple(pair for clip in clips for pair in clip.stand_ins)
        record = Preparation("database", f"{self.video.id}/{key}", sum(costs, Cost()), stand_ins=stand_ins)
        search = CaptionSearch(clips, self.text_encoder)
        return Database(tuple(clips), registry, search, record, tuple(notes))

    # ---- building ----------------------------------------------------------------------------------------

    def _captioned(
        self, missing: Sequence[int], bounds: Sequence[tuple[float, float]], lines: Lines
    ) -> Iterator[CaptionedClip]:
        """The missing clips, each as soon as it is captioned."""
        if self.settings.registry != "progressive":
            yield from self._captioned_in_parallel(missing, bounds)
            return
        # S_i, c_i = VLM(f_i, S_{i-1}): each clip is shown the registry of those before it.
        registry, registered = SubjectRegistry(), 0
        for number in missing:
            for before in range(registered, number):
                _add(registry, lines.clips[before])
            registered = number
            try:
                clip = self._caption(number, *bounds[number], registry.describe())
            except BackboneError as error:
                if registry.subjects and is_too_long(error):
                    raise BackboneError(_too_large(registry, number, error)) from error
                raise
            yield clip

    def _captioned_in_parallel(
        self, missing: Sequence[int], bounds: Sequence[tuple[float, float]]
    ) -> Iterator[CaptionedClip]:
        clock = SharedClock()

        def caption(number: int) -> CaptionedClip:
            with clock.running() as watch:
                clip = self._caption(number, *bounds[number], "")
            # Its share of the wall time, so that the clips' seconds add up to the build's.
            return clip.model_copy(update={"cost": replace(clip.cost, seconds=watch.share)})

        with ThreadPoolExecutor(self.settings.max_parallel) as threads:
            carried = carrying_cancellation(caption)
            futures: list[Future[CaptionedClip]] = [threads.submit(carried, number) for number in missing]
            failure: VideoProError | None = None
            try:
                for future in as_completed(futures):
                    if future.cancelled():
                        continue
                    try:
                        with unexpected_as(NativeError):
                            clip = future.result()
                    except QUESTION_ERRORS as error:
                        # Those in flight are paid and kept; those that wait are not begun.
                        failure = failure or error
                        for other in futures:
                            other.cancel()
                        continue
                    yield clip
            finally:
                for future in futures:
                    future.cancel()
        if failure is not None:
            raise failure

    def _caption(self, number: int, start: float, end: float, registry: str) -> CaptionedClip:
        session = self._session(f"clip {number}")
        spoken = spoken_in(self.subtitles, start, end)
        frames = session.frames(fps_times(start, end, self.settings.fps, self.model.frames), CAPTIONER)
        caption, fault = "", ""
        subjects: list[SubjectReply] = []
        if self.settings.registry == "none":
            caption = session.tell("caption", CAPTIONER, shared_prompts.caption(), frames=frames)
        else:
            prompt = prompts.caption(start, end, registry, spoken)
            reply = session.ask("caption", CAPTIONER, prompt, schema=CaptionReply, frames=frames)
            if reply is not None:
                caption, subjects = reply.caption, reply.subjects
            else:
                fault = session.steps[-1].faults[-1]
        return CaptionedClip(
            clip=number,
            start=start,
            end=end,
            caption=" ".join(caption.split()),
            spoken=spoken,
            subjects=subjects,
            fault=fault,
            stand_ins=stand_ins_in(frames),
            cost=replace(session.settle(), stages={}),
        )

    def _merge(self, clips: Sequence[CaptionedClip]) -> MergedRegistry:
        """Join the subjects of all clips by one request. If it is longer than the captioner takes, or its
        reply cannot be parsed, equal names are one subject."""
        mentions = [mention for clip in clips for mention in clip.mentions]
        if not mentions:
            return MergedRegistry(registry=[], cost=Cost())
        session = self._session("merge")
        prompt = prompts.merge(mentions)
        fault = ""
        try:
            reply = session.ask("merge", CAPTIONER, prompt, schema=MergeReply)
            if reply is None:
                fault = session.steps[-1].faults[-1]
        except BackboneError as error:
            if not is_too_long(error):
                raise
            reply, fault = None, f"{_NO_ROOM} ({error})"
        registry = _by_name(clips) if reply is None else merged(mentions, reply)
        return MergedRegistry(
            registry=registry.subjects, fault=fault, cost=replace(session.settle(), stages={})
        )

    def _session(self, name: str) -> Session:
        # Without limits: a budget is a question's, and a database serves all of them.
        return Session(
            Question.open(name),
            self.video,
            {CAPTIONER: self.model},
            self.settings,
            seed=self.seed,
            budget=Budget(),
        )


def _too_large(registry: SubjectRegistry, number: int, error: BackboneError) -> str:
    """The message for a caption that was refused because of the registry in its prompt."""
    return (
        f"clip {number}: {error}; its prompt contains the registry so far ({len(registry.subjects)} "
        f"subjects, {len(registry.describe()):,} characters), which grows with the video: use "
        "registry=parallel, longer clips (clip_seconds), or a captioner with a longer context"
    )


def _by_name(clips: Sequence[CaptionedClip]) -> SubjectRegistry:
    registry = SubjectRegistry()
    for clip in clips:
        _add(registry, clip)
    return registry


def _add(registry: SubjectRegistry, clip: CaptionedClip) -> None:
    for mention in clip.mentions:
        registry.add(mention)
