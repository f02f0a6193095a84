"""The file of a database: a JSON line for each captioned clip, with what it cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from videopro.methods.dvd.registry import Subject, SubjectReply
from videopro.storage import InvalidJson, parse_json
from videopro.traces import Cost


class ClipCost(BaseModel):
    """What a line of the file cost."""

    seconds: float = 0.0
    frames: float = 0.0
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0

    @classmethod
    def of(cls, cost: Cost) -> ClipCost:
        facts = asdict(cost)
        return cls(**{name: facts[name] for name in cls.model_fields})

    def cost(self) -> Cost:
        return Cost(self.seconds, {}, self.frames, self.calls, self.tokens_in, self.tokens_out)


class CaptionedClip(BaseModel):
    """A clip of the database."""

    model_config = ConfigDict(extra="forbid")
    clip: int
    start: float
    end: float
    caption: str
    """Empty if the captioner's reply could not be parsed."""
    spoken: str = ""
    subjects: list[SubjectReply] = []
    fault: str = ""
    cost: ClipCost = ClipCost()

    @property
    def text(self) -> str:
        """What is searched and shown: the caption, enriched by what is spoken."""
        return " ".join(
            part for part in (self.caption, f"Spoken: {self.spoken}" if self.spoken else "") if part
        )


class MergedRegistry(BaseModel):
    """The last line of a database whose clips were captioned in parallel."""

    model_config = ConfigDict(extra="forbid")
    registry: list[Subject]
    fault: str = ""
    cost: ClipCost = ClipCost()


def read_lines(
    path: Path, bounds: Sequence[tuple[float, float]]
) -> tuple[dict[int, CaptionedClip], MergedRegistry | None]:
    """The clips in a database's file, and its merged registry if it is there. A line that is damaged is left
    out, with a message on stderr, and its clip is captioned again."""
    clips: dict[int, CaptionedClip] = {}
    merged: MergedRegistry | None = None
    for number, content in _objects(path):
        try:
            if "registry" in content:
                merged = MergedRegistry.model_validate(content)
                continue
            clip = CaptionedClip.model_validate(content)
        except ValidationError:
            print(f"{path}, line {number}: is damaged; its clip is captioned again", file=sys.stderr)
            continue
        if 0 <= clip.clip < len(bounds):
            clips[clip.clip] = clip
    return clips, merged


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = path.read_bytes().split(b"\n")
    # What follows the last newline is a line that a killed process left half-written.
    for number, line in enumerate(lines[:-1], 1):
        try:
            content = parse_json(line)
        except InvalidJson:
            content = None
        if isinstance(content, dict):
            yield number, content
        else:
            print(f"{path}, line {number}: is damaged; its clip is captioned again", file=sys.stderr)
