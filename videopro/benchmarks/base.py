"""A benchmark: questions about videos in a fixed order, and their scoring protocol. Opens no videos."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ConfigDict

from videopro.benchmarks.protocol import ROBUST, Protocol
from videopro.cli import did_you_mean
from videopro.errors import BenchmarkError, ConfigError
from videopro.question import NO_OPTION, Parser, Question
from videopro.traces import SetMember
from videopro.video import VIDEO_ENDINGS

__all__ = ["NO_OPTION", "ROBUST", "SUBTITLE_TRACK_HELP", "Benchmark", "Issue", "Item", "Protocol"]

SUBTITLE_TRACK_HELP = (
    "subtitle track in the video files: its number (from 0), language (such as en) or title; unset: the "
    "default track, preferring full subtitles over forced, signs-and-songs and commentary tracks"
)

# Characters of an issue that are shown.
_ISSUE_CHARS = 500


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    # For the check of items that one's own code makes (`videopro.benchmarks.sources`): Python checks no
    # types, and lists in the place of tuples could not be compared between questions.
    __pydantic_config__ = ConfigDict(strict=True, revalidate_instances="always")

    id: str
    """Unique in the benchmark."""
    video: Path
    video_key: str
    """The benchmark's name for the video; questions with the same key share the video."""
    question: Question
    answer: str | None = None
    """Letter of the correct option; None if the benchmark does not publish it or the question is open;
    NO_OPTION if no option is correct."""
    subtitles: Path | None = None
    """The subtitle file that the benchmark lists, or the video itself for embedded subtitles; None if this
    video has none."""
    subtitle_track: str | None = None
    """Which track of a video file to read: its number, language or title; None: the fullest one."""
    subtitle_offset: float = 0.0
    """Seconds of the original video before this file starts; subtracted from the subtitles' times."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Breakdowns of the result, such as {"family": "count", "duration": "long"}; several of one kind are
    joined by `videopro.traces.scoring.metrics.GROUP_SEPARATOR`."""
    evidence: tuple[tuple[float, float], ...] = ()
    """Intervals (s) that contain the answer, where known. For analysis only: no method may read it."""
    shown: tuple[tuple[float, float], ...] = ()
    """The only intervals (s) of the video that may be shown; empty: all of it."""
    reference: str | None = None
    """The reference for an open answer."""
    member: SetMember | None = None
    """Its place in a set of questions that are scored together (metrics of kind "set")."""


@dataclass(frozen=True)
class Issue:
    """A problem in the benchmark's files."""

    where: str
    """File and record."""
    problem: str
    fix: str = ""

    @classmethod
    def of(cls, where: str, error: Exception) -> Issue:
        """The problem and the fix in an error's message."""
        problem, _, fix = str(error).partition("; ")
        return cls(where, problem if len(problem) <= _ISSUE_CHARS else f"{problem[:_ISSUE_CHARS]}...", fix)

    @property
    def reason(self) -> str:
        """The problem and the fix."""
        return f"{self.problem}; {self.fix}" if self.fix else self.problem

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Benchmark:
    """Questions in the benchmark's order. Raises BenchmarkError for no questions or a duplicate id."""

    name: str
    split: str
    items: Sequence[Item]
    protocol: Protocol
    version: str = ""
    """Distinguishes different files with the same name and split; part of a run's key."""
    fetch: Callable[[Sequence[Item]], None] | None = None
    """Creates the files of these questions on demand; None: files exist or are missing."""
    broken: tuple[Issue, ...] = ()
    """Invalid records, skipped on request."""
    defects: tuple[Issue, ...] = ()
    """Annotation errors in records that are asked anyway, and how they were read."""
    parser: Parser | None = None
    """The benchmark's own official answer parser; None: the parser that the protocol names."""

    def __post_init__(self) -> None:
        if not self.items:
            raise BenchmarkError(
                f"{self.name}, split {self.split!r}: has no questions; set another split, or "
                "pass the file with the questions"
            )
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                raise BenchmarkError(
                    f"{self.name}, split {self.split!r}: id {item.id!r} occurs twice; ids must be unique"
                )
            seen.add(item.id)

    def with_subtitle_track(self, track: str | None) -> Benchmark:
        """The same questions, with this track of videos with embedded subtitles. Raises ConfigError if there
        are no such videos."""
        if track is None:
            return self
        if not any(_is_video(item.subtitles) for item in self.items):
            raise ConfigError(
                f"--subtitle-track {track}: {self.name} has no questions with subtitles in a video file; "
                "leave it out"
            )
        return replace(self, items=[replace(item, subtitle_track=track) for item in self.items])

    def select(self, *, limit: float | None = None, ids: Sequence[str] = (), seed: int = 0) -> list[Item]:
        """The questions of a run.

        `limit` is the number of questions, or below 1 the share, rounded up. It takes whole videos in an
        order shuffled by `seed` until the limit is reached, the last video in part. Every prefix of the order
        keeps the "duration" groups in proportion. So a few questions are a fair sample (a benchmark's own
        order often starts with its short videos), few videos are decoded for them, and a larger limit only
        adds questions. `ids` selects questions by id, in the benchmark's order if there is no limit. Raises
        ConfigError for an unknown id, or an invalid limit.
        """
        chosen = list(self.items)
        if ids:
            all_ids = {item.id for item in chosen}
            for name in ids:
                if name not in all_ids:
                    raise ConfigError(
                        f"ids: {self.name}, split {self.split!r}, has no question {name!r}; "
                        f"{_nearest(name, all_ids)}"
                    )
            selected = set(ids)
            chosen = [item for item in chosen if item.id in selected]
        if limit is None:
            return chosen
        count = _count(limit, len(chosen))
        by_video: dict[str, list[Item]] = {}
        for item in chosen:
            by_video.setdefault(item.video_key, []).append(item)
        videos = list(by_video)
        # Of the whole list, before any limit: a larger limit then only adds questions.
        random.Random(seed).shuffle(videos)
        strata: dict[str, list[str]] = {}
        for video in videos:
            strata.setdefault(by_video[video][0].groups.get("duration", ""), []).append(video)
        # A video's place is its relative rank in its stratum; equal places stay in shuffled order.
        rank_in_stratum = {
            video: (rank + 0.5) / len(stratum)
            for stratum in strata.values()
            for rank, video in enumerate(stratum)
        }
        videos.sort(key=rank_in_stratum.__getitem__)
        return [item for video in videos for item in by_video[video]][:count]


def _is_video(path: Path | None) -> bool:
    return path is not None and path.suffix.lower() in VIDEO_ENDINGS


def _count(limit: float, questions: int) -> int:
    """The number of questions for a limit."""
    if not isinstance(limit, int) and 0 < limit < 1:
        # Rounded up, so that a small share of a small benchmark is not nothing.
        return math.ceil(limit * questions)
    if not math.isfinite(limit) or limit < 1:
        raise ConfigError(
            f"limit is {limit}; it must be at least 1, or a share between 0 and 1 (leave it out for all "
            "questions)"
        )
    if limit != int(limit):
        raise ConfigError(f"limit is {limit}; it must be a whole number, or a share between 0 and 1")
    return int(limit)


def _nearest(name: str, ids: set[str]) -> str:
    hint = did_you_mean(name, sorted(ids))
    # Thousands of ids are no help.
    return hint if hint.startswith("did you mean") or len(ids) < 50 else f"it has {len(ids)} others"
