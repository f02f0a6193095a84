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
    """A subject of the whole video, with the names that it had in single clips."""

    names: list[str] = []


class MergeReply(BaseModel):
    """The subjects of all clips, each once."""

    subjects: list[MergedSubject]


class Subject(BaseModel):
    """An entry of the registry."""

    model_config = ConfigDict(extra="forbid")
    name: str
    appearance: str = ""
    identity: str = ""
    actions: list[str] = []
    spans: list[tuple[float, float]] = []
    """(start, end) in seconds of the clips in which it appears; adjacent ones are joined."""

    def describe(self) -> str:
        """One line for a prompt."""
        spans = ", ".join(f"{start:.0f}-{end:.0f} s" for start, end in self.spans)
        parts = [self.appearance, self.identity, "; ".join(self.actions), spans]
        return f"{self.name}: " + ". ".join(part for part in parts if part)


class SubjectRegistry:
    """Subjects by name; a name differs in case or spaces only from itself."""

    def __init__(self, subjects: Iterable[Subject] = ()) -> None:
        self._subjects = {_key(subject.name): subject for subject in subjects}

    @property
    def subjects(self) -> list[Subject]:
        """All subjects, in the order in which they first appeared."""
        return list(self._subjects.values())

    def add(self, seen: Sequence[SubjectReply], start: float, end: float) -> None:
        """Add what a clip shows: new subjects, or new facts about known ones."""
        for reply in seen:
            key = _key(reply.name)
            known = self._subjects.get(key) or Subject(name=reply.name)
            actions = [*known.actions, *(a for a in reply.actions if a not in known.actions)]
            self._subjects[key] = Subject(
                name=known.name,
                appearance=known.appearance or reply.appearance,
                identity=known.identity or reply.identity,
                actions=actions,
                spans=_joined([*known.spans, (start, end)]),
            )

    def merged(self, reply: MergeReply) -> SubjectRegistry:
        """The registry with subjects joined as a model says; subjects that it leaves out stay as they are."""
        left = dict(self._subjects)
        made = []
        for subject in reply.subjects:
            parts = [left.pop(key) for key in map(_key, [subject.name, *subject.names]) if key in left]
            if not parts:
                continue
            actions = list(dict.fromkeys(action for part in parts for action in part.actions))
            made.append(
                Subject(
                    name=subject.name,
                    appearance=subject.appearance or parts[0].appearance,
                    identity=subject.identity or parts[0].identity,
                    actions=subject.actions or actions,
                    spans=_joined(sorted(span for part in parts for span in part.spans)),
                )
            )
        return SubjectRegistry([*made, *left.values()])

    def describe(self) -> str:
        """The registry for a prompt; empty if nobody is in it."""
        return "\n".join(subject.describe() for subject in self.subjects)


def _key(name: str) -> str:
    return " ".join(name.casefold().split())


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1] + 1e-6:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
