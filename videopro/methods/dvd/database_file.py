"""The file of a database: a JSON line for each captioned clip, and for the registry that is made of all of
them, each with its cost; and the search in its captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from videopro.methods.dvd.registry import Subject, SubjectReply
from videopro.modules.models.encoders import TextEncoder
from videopro.modules.search import SubtitleSearch
from videopro.storage import InvalidJson, parse_json
from videopro.traces import Cost
from videopro.video import SubtitleLine, Subtitles


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cost: Cost
    """Without its stages."""


class CaptionedClip(_Line):
    """A clip of the database."""

    clip: int
    """Its number, from 0."""
    start: float
    end: float
    caption: str
    """Empty if the captioner's reply could not be parsed."""
    spoken: str = ""
    """The subtitle lines that begin in the clip."""
    subjects: list[SubjectReply] = []
    fault: str = ""
    """Why there is no caption."""
    stand_ins: tuple[tuple[float, float], ...] = ()
    """Of its frames, those that stand in for damaged ones: (time asked for, its own time) in s."""

    @property
    def text(self) -> str:
        """What is searched and shown: the caption, enriched by what is spoken."""
        spoken = f"Spoken: {self.spoken}" if self.spoken else ""
        return " ".join(part for part in (self.caption, spoken) if part)

    @property
    def mentions(self) -> list[Subject]:
        """The subjects that are seen in this clip."""
        return [Subject.seen(subject, self.start, self.end) for subject in self.subjects]


class MergedRegistry(_Line):
    """The registry of a database whose clips were captioned in parallel."""

    registry: list[Subject]
    fault: str = ""
    """Why the subjects were not merged."""


@dataclass
class Lines:
    """What a database's file holds. A later line replaces an earlier one of the same kind."""

    clips: dict[int, CaptionedClip] = field(default_factory=dict)
    registry: MergedRegistry | None = None
    damaged: int = 0
    """Lines that cannot be read, or do not fit the clips."""

    def add(self, clip: CaptionedClip) -> None:
        """Add a clip. What was made of all clips before no longer fits."""
        self.clips[clip.clip] = clip
        self.registry = None


_ANY_LINE: TypeAdapter[CaptionedClip | MergedRegistry] = TypeAdapter(CaptionedClip | MergedRegistry)


def read_lines(path: Path, bounds: Sequence[tuple[float, float]]) -> Lines:
    """The lines of a database with these clips."""
    lines = Lines()
    # What follows the last newline is a line that a killed process left half-written.
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            content = _ANY_LINE.validate_python(parse_json(line))
        except (InvalidJson, ValidationError):
            lines.damaged += 1
            continue
        if isinstance(content, MergedRegistry):
            lines.registry = content
        elif content.clip in range(len(bounds)) and bounds[content.clip] == (content.start, content.end):
            lines.add(content)
        else:
            lines.damaged += 1
    return lines


class CaptionSearch:
    """Search in the clips that have a caption or speech: by the cosine of embeddings, which the first search
    makes, or by words (BM25) without an encoder. Thread-safe."""

    def __init__(self, clips: Sequence[CaptionedClip], encoder: TextEncoder | None = None) -> None:
        self._clips = [clip for clip in clips if clip.text]
        lines = tuple(SubtitleLine(clip.start, clip.end, clip.text) for clip in self._clips)
        self._search = SubtitleSearch(Subtitles(lines, "captions"), encoder)

    def best(self, query: str, top_k: int) -> list[tuple[CaptionedClip, float]]:
        """The `top_k` best clips with their scores, best first; ties by time. BM25 finds only clips that
        share a word with the query."""
        return [(self._clips[index], score) for index, score in self._search.rank(query)[:top_k]]
