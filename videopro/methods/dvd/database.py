"""The multi-granular database of a video: captioned clips, the subject registry, search in captions (section
3.1).

A clip is written to the database's file as soon as it is captioned, so that a killed build loses at most the
clips in flight, and every line says what it cost. One process builds, others wait for it. Frames are not
stored: they are decoded from the video when a tool asks for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from videopro import prompts as shared_prompts
from videopro.methods.agents import AgentModel, Budget, BudgetLimits, Session
from videopro.methods.dvd import prompts
from videopro.methods.dvd.database_file import CaptionedClip, ClipCost, MergedRegistry, read_lines
from videopro.methods.dvd.registry import CaptionReply, MergeReply, SubjectRegistry, SubjectReply
from videopro.methods.dvd.settings import DvdSettings
from videopro.modules.models.encoders import TextEncoder
from videopro.modules.search import SubtitleSearch, clip_bounds
from videopro.question import Question
from videopro.storage import JsonLinesLog
from videopro.traces import Cost, Preparation
from videopro.video import SubtitleLine, Subtitles, Video, fps_times

CAPTIONER = "captioner"


@dataclass(frozen=True)
class Database:
    """A finished database. Thread-safe."""

    key: str
    clips: tuple[CaptionedClip, ...]
    registry: SubjectRegistry
    preparation: Preparation
    faults: tuple[str, ...] = ()
    """What could not be parsed, for the notes of every question."""
    search: SubtitleSearch = field(repr=False, kw_only=True)
    """Search in the captions."""


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
        """Load what is there and caption the rest. Raises VideoError, BackboneError, RunError."""
        path = self.path()
        bounds = clip_borders(self.video.duration, self.settings, self.subtitles)
        with closing(JsonLinesLog(path, make_folder=True)) as log, log.locked():
            clips, merged = read_lines(path, bounds)
            if self.settings.registry == "parallel":
                merged = self._build_parallel(log, bounds, clips, merged)
            else:
                self._build_in_turn(log, bounds, clips)
        made = [clips[number] for number in range(len(bounds))]
        registry = _replayed(made) if merged is None else SubjectRegistry(merged.registry)
        costs = [clip.cost.cost() for clip in made]
        if merged is not None:
            costs.append(merged.cost.cost())
        failed = sum(bool(clip.fault) for clip in made)
        faults = (
            [f"{failed} of {len(made)} clips of the database have no caption: unparsed"] if failed else []
        )
        if merged is not None and merged.fault:
            faults.append("the subjects of the database were not merged: unparsed")
        lines = tuple(SubtitleLine(clip.start, clip.end, clip.text) for clip in made)
        return Database(
            path.stem,
            tuple(made),
            registry,
            Preparation("database", f"{self.video.id}/{path.stem}", sum(costs, Cost())),
            tuple(faults),
            search=SubtitleSearch(Subtitles(lines, str(self.video.path)), self.text_encoder),
        )

    def path(self) -> Path:
        """The database's file: one for each video and everything that its captions depend on."""
        settings = self.settings
        spoken = "" if self.subtitles is None else "\n".join(line.text for line in self.subtitles.lines)
        facts = {
            "prompts": prompts.DATABASE_PROMPTS,
            "captioner": self.model.identity(),
            "clip_seconds": settings.clip_seconds,
            "fps": settings.fps,
            "registry": settings.registry,
            "segmentation": settings.segmentation,
            "sampling": [settings.temperature, settings.max_new_tokens, settings.repair, self.seed],
            "spoken": hashlib.sha256(spoken.encode()).hexdigest(),
        }
        key = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return self.root / self.video.id / f"{key}.jsonl"

    # ---- building ----------------------------------------------------------------------------------------

    def _build_in_turn(
        self, log: JsonLinesLog, bounds: Sequence[tuple[float, float]], clips: dict[int, CaptionedClip]
    ) -> None:
        """S_i, c_i = VLM(f_i, S_{i-1}): each clip is shown the registry of those before it."""
        registry = SubjectRegistry()
        for number, (start, end) in enumerate(bounds):
            if number not in clips:
                clips[number] = self._caption(number, start, end, registry.describe())
                log.append(clips[number].model_dump(mode="json"))
            registry.add(clips[number].subjects, start, end)

    def _build_parallel(
        self,
        log: JsonLinesLog,
        bounds: Sequence[tuple[float, float]],
        clips: dict[int, CaptionedClip],
        merged: MergedRegistry | None,
    ) -> MergedRegistry:
        missing = [number for number in range(len(bounds)) if number not in clips]
        with ThreadPoolExecutor(self.settings.max_parallel) as threads:
            made = threads.map(lambda number: self._caption(number, *bounds[number], ""), missing)
            for clip in made:
                clips[clip.clip] = clip
                log.append(clip.model_dump(mode="json"))
        if merged is None or missing:
            merged = self._merge(_replayed([clips[number] for number in range(len(bounds))]))
            log.append(merged.model_dump(mode="json"))
        return merged

    def _caption(self, number: int, start: float, end: float, registry: str) -> CaptionedClip:
        session = self._session(number)
        spoken = ""
        if self.subtitles is not None:
            # A line belongs to the clip in which it begins.
            lines = self.subtitles.between(start, end)
            spoken = " ".join(line.text for line in lines if start <= line.start < end)
        frames = session.frames(fps_times(start, end, self.settings.fps, self.model.frames), CAPTIONER)
        caption, fault = "", ""
        subjects: list[SubjectReply] = []
        if self.settings.registry == "none":
            caption = " ".join(
                session.tell("caption", CAPTIONER, shared_prompts.caption(), frames=frames).split()
            )
        else:
            prompt = prompts.caption(start, end, registry, spoken)
            reply = session.ask("caption", CAPTIONER, prompt, schema=CaptionReply, frames=frames).parsed
            if reply is not None:
                caption, subjects = " ".join(reply.caption.split()), reply.subjects
            else:
                fault = session.steps[-1].faults[-1]
        return CaptionedClip(
            clip=number,
            start=start,
            end=end,
            caption=caption,
            spoken=spoken,
            subjects=subjects,
            fault=fault,
            cost=ClipCost.of(session.settle()),
        )

    def _merge(self, registry: SubjectRegistry) -> MergedRegistry:
        if not registry.subjects:
            return MergedRegistry(registry=[])
        session = self._session(-1)
        prompt = prompts.merge(registry.describe())
        reply = session.ask("merge", CAPTIONER, prompt, schema=MergeReply).parsed
        fault = "" if reply is not None else session.steps[-1].faults[-1]
        subjects = (registry if reply is None else registry.merged(reply)).subjects
        return MergedRegistry(registry=subjects, fault=fault, cost=ClipCost.of(session.settle()))

    def _session(self, number: int) -> Session:
        # A budget is a question's; a database serves all of them.
        return Session(
            Question.open(f"clip {number}"),
            self.video,
            {CAPTIONER: self.model},
            self.settings,
            seed=self.seed,
            budget=Budget(BudgetLimits()),
        )


def clip_borders(
    duration: float, settings: DvdSettings, subtitles: Subtitles | None
) -> list[tuple[float, float]]:
    """(start, end) in seconds of each clip. With segmentation "transcript", a border moves to the end of the
    nearest subtitle line within half a clip."""
    bounds = list(clip_bounds(duration, settings.clip_seconds))
    if settings.segmentation == "uniform" or subtitles is None:
        return bounds
    pauses = sorted({line.end for line in subtitles.lines if 0 < line.end < duration})
    borders = [0.0]
    for _, end in bounds[:-1]:
        near = [pause for pause in pauses if abs(pause - end) < settings.clip_seconds / 2]
        borders.append(min(near, key=lambda pause: abs(pause - end), default=end))
    borders = [*dict.fromkeys(borders), duration]
    return list(pairwise(borders))


def _replayed(clips: Sequence[CaptionedClip]) -> SubjectRegistry:
    registry = SubjectRegistry()
    for clip in clips:
        registry.add(clip.subjects, clip.start, clip.end)
    return registry
