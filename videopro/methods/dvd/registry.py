"""The subject registry: who and what appears in the video, and when (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field


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
        """The registry for a prompt; empty if nobody is in it."""
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
