"""What a benchmark is to the runner: questions about videos, in an order, with the protocol that scores them.

Knows questions and paths. Must not know methods, models or runs, and never opens a video.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from videopro.benchmarks.protocol import ROBUST, Protocol
from videopro.errors import BenchmarkError, ConfigError
from videopro.question import NO_OPTION, Question
from videopro.settings import did_you_mean

__all__ = ["NO_OPTION", "ROBUST", "Benchmark", "Issue", "Item", "Protocol"]

# Characters of a flaw that are told.
_SHOWN = 500


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    id: str
    """Unique in the benchmark."""
    video: Path
    video_key: str
    """The benchmark's own name of the video; questions with the same key share it."""
    question: Question
    answer: str | None = None
    """Letter of the right option; None where the benchmark keeps it to itself, and for an open question;
    NO_OPTION where none is right."""
    subtitles: Path | None = None
    """The file of subtitles that the benchmark lists, or the video itself for those embedded in it; None if
    there are none for this video."""
    subtitle_offset: float = 0.0
    """Seconds of the original video before this file begins; subtracted from the subtitles' times."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Breakdowns of the result, such as {"family": "count", "duration": "long"}; several of one kind are
    joined by `videopro.scoring.metrics.SEVERAL`."""
    evidence: tuple[tuple[float, float], ...] = ()
    """Intervals (s) that hold the answer, where known. For analysis only: no method may read it."""
    shown: tuple[tuple[float, float], ...] = ()
    """The only intervals (s) of the video that may be looked at; empty: all of it."""
    reference: str | None = None
    """The answer in words that a judge compares an open answer with."""


@dataclass(frozen=True)
class Issue:
    """Something in the files that is not as it should be."""

    where: str
    """File and record."""
    what: str
    mend: str = ""

    @classmethod
    def of(cls, where: str, error: Exception) -> Issue:
        """What an error says is wrong, and what it says would mend it."""
        what, _, mend = str(error).partition("; ")
        return cls(where, what if len(what) <= _SHOWN else f"{what[:_SHOWN]}...", mend)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.mend}" if self.mend else f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Benchmark:
    """Questions in the benchmark's own order. Raises BenchmarkError for no questions or a repeated id."""

    name: str
    split: str
    items: Sequence[Item]
    protocol: Protocol
    version: str = ""
    """Tells apart files of the same name and split that differ; part of a run's key."""
    fetch: Callable[[Sequence[Item]], None] | None = None
    """Makes the files of these questions that are made on demand; None: they are there, or are missing."""
    broken: tuple[Issue, ...] = ()
    """Records that cannot be asked; they were left out because the user said so."""
    defects: tuple[Issue, ...] = ()
    """Records with a fault of the annotation that are asked all the same, and how they were read."""

    def __post_init__(self) -> None:
        if not self.items:
            raise BenchmarkError(f"{self.name}, split {self.split!r}: has no questions")
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                raise BenchmarkError(
                    f"{self.name}, split {self.split!r}: question id {item.id!r} comes twice"
                )
            seen.add(item.id)

    def select(self, *, limit: int | None = None, ids: Sequence[str] = (), seed: int = 0) -> list[Item]:
        """The questions of a run.

        `limit` takes whole videos in an order drawn from `seed` until it is reached, the last one in part.
        The order keeps the groups "duration" in proportion all the way. So a few questions are a fair
        sample of all (a benchmark's own order often begins with its short videos), few videos are decoded
        for them, and a larger limit only adds. `ids` takes the questions of that name, in the benchmark's
        order. Raises ConfigError for an unknown id or a limit below 1.
        """
        chosen = list(self.items)
        if ids:
            known = {item.id for item in chosen}
            for one in ids:
                if one not in known:
                    raise ConfigError(
                        f"ids: {self.name}, split {self.split!r}, has no question {one!r}; "
                        f"{did_you_mean(one, sorted(known)) if len(known) < 50 else _nearest(one, known)}"
                    )
            wanted = set(ids)
            chosen = [item for item in chosen if item.id in wanted]
        if limit is None:
            return chosen
        if limit < 1:
            raise ConfigError(f"limit is {limit}; it must be at least 1 (leave it out for all questions)")
        by_video: dict[str, list[Item]] = {}
        for item in chosen:
            by_video.setdefault(item.video_key, []).append(item)
        videos = list(by_video)
        random.Random(seed).shuffle(videos)
        strata: dict[str, list[str]] = {}
        for video in videos:
            strata.setdefault(by_video[video][0].groups.get("duration", ""), []).append(video)
        # A video's place is how far through its stratum it comes; those at one place stay as shuffled.
        place = {
            video: (rank + 0.5) / len(stratum)
            for stratum in strata.values()
            for rank, video in enumerate(stratum)
        }
        videos.sort(key=place.__getitem__)
        return [item for video in videos for item in by_video[video]][:limit]


def _nearest(name: str, known: set[str]) -> str:
    hint = did_you_mean(name, sorted(known))
    return hint if hint.startswith("did you mean") else f"it has {len(known)} others"
