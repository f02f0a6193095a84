"""The file of a database: a JSON line for each captioned clip, and for the registry that is made of all of
them, each with its cost; and the search in its captions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from videopro.modules.models.encoders import TextEncoder
from videopro.modules.search import SubtitleSearch
from videopro.storage import InvalidJson, parse_json
from videopro.traces import Cost
from videopro.video import SubtitleLine, Subtitles


class SubjectReply(BaseModel):
    """A subject, as a captioner reports it."""

    name: str = Field(min_length=1)
    appearance: str = ""
    identity: str = ""
    actions: list[str] = []


class CaptionReply(BaseModel):
    """A clip's caption, with the subjects in it."""

    caption: str = Field(min_length=1)
    subjects: list[SubjectReply] = []


class MergedSubject(SubjectReply):
    """A subject of the whole video, with the numbers of the mentions that are this subject."""

    mentions: list[int] = Field(min_length=1)


class MergeReply(BaseModel):
    """The subjects of all clips, each once."""

    subjects: list[MergedSubject]


class Subject(BaseModel):
    """An entry of the registry, or what one clip says of a subject."""

    model_config = ConfigDict(extra="forbid")
    name: str
    appearance: str = ""
    identity: str = ""
    actions: list[str] = []
    spans: list[tuple[float, float]] = []
    """(start, end) in seconds of the clips in which it appears; adjacent ones are joined."""

    @classmethod
    def seen(cls, reply: SubjectReply, start: float, end: float) -> Subject:
        """What a captioner reports about the clip from `start` to `end` (s)."""
        return cls(
            name=reply.name,
            appearance=reply.appearance,
            identity=reply.identity,
            actions=reply.actions,
            spans=[(start, end)],
        )

    def describe(self) -> str:
        """One line for a prompt."""
        spans = ", ".join(f"{start:.0f}-{end:.0f} s" for start, end in self.spans)
        parts = [self.appearance, self.identity, "; ".join(self.actions), spans]
        return f"{self.name}: " + ". ".join(part for part in parts if part)


class SubjectRegistry:
    """Subjects by name; case and spaces make no difference."""

    def __init__(self, subjects: Iterable[Subject] = ()) -> None:
        self._subjects: dict[str, Subject] = {}
        for subject in subjects:
            self.add(subject)

    @property
    def subjects(self) -> list[Subject]:
        """All subjects, in the order in which they were added."""
        return list(self._subjects.values())

    def add(self, seen: Subject) -> None:
        """Add a new subject, or new facts about a known one."""
        key = " ".join(seen.name.casefold().split())
        subject = self._subjects.get(key)
        self._subjects[key] = seen if subject is None else _joined(subject, [subject, seen])

    def describe(self) -> str:
        """The registry for a prompt; empty without subjects."""
        return "\n".join(subject.describe() for subject in self.subjects)


def merged(mentions: Sequence[Subject], reply: MergeReply) -> SubjectRegistry:
    """The registry of the mentions of all clips, joined as a model says. Each mention counts once; those that
    it leaves out are joined by name."""
    left = dict(enumerate(mentions))
    registry = SubjectRegistry()
    for subject in reply.subjects:
        parts = [left.pop(number) for number in subject.mentions if number in left]
        if parts:
            registry.add(_joined(Subject(**subject.model_dump(exclude={"mentions"})), parts))
    for mention in left.values():
        registry.add(mention)
    return registry


def _joined(stated: Subject, parts: Sequence[Subject]) -> Subject:
    """The subject with what its parts say; what `stated` says comes first."""
    spans: list[tuple[float, float]] = []
    for start, end in sorted(span for part in parts for span in part.spans):
        # Times are sums of floats: a clip begins where the one before it ends but for rounding.
        if spans and start <= spans[-1][1] + 1e-6:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return Subject(
        name=stated.name,
        appearance=stated.appearance or _first(part.appearance for part in parts),
        identity=stated.identity or _first(part.identity for part in parts),
        actions=list(dict.fromkeys(a for part in (stated, *parts) for a in part.actions)),
        spans=spans,
    )


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


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
    """Its frames that replace damaged ones: (requested time, time of the frame) in s."""

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
