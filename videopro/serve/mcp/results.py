"""What the tools return, as clients read it: `structured_content`, whose schema each tool tells, and progress
meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel, Field

from videopro.errors import ConfigError
from videopro.modules.tools import VideoTools

# What an answer's steps are made of; evidence and the answer have fields of their own.
_STEPS = ("reply", "call", "execution", "step")


class Evidence(BaseModel):
    """A piece of what a call looked at or found."""

    kind: str = Field(description="frames, interval, subtitle, text or box")
    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    time: float | None = Field(default=None, description="seconds, if it is one frame")
    box: list[float] | None = Field(
        default=None, description="x0, y0, x1, y1 in shares of the picture, 0 to 1"
    )
    text: str | None = None
    source: str = Field(description="the call or step that it comes from")


class FilmFile(BaseModel):
    """A film that can be opened."""

    path: str
    bytes: int


class FilmInfo(BaseModel):
    """An open film."""

    film: str = Field(description="the id that the other tools take")
    name: str
    duration: float = Field(description="seconds")
    width: int
    height: int
    has_subtitles: bool


class Opened(BaseModel):
    """The film that was opened, or the films that can be."""

    film: FilmInfo | None = None
    films: list[FilmFile] = []


class Indexed(BaseModel):
    """The index of a film."""

    film: str
    clips: int
    seconds: float = Field(description="what it took; 0 if it was there")


class Clip(BaseModel):
    """A stretch of a film."""

    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    score: float | None = None
    subtitles: str = ""


class Clips(BaseModel):
    """The clips that show what was searched for, in order of time."""

    clips: list[Clip]
    evidence: list[Evidence]


class Shown(BaseModel):
    """A frame."""

    time: float = Field(description="seconds")
    subtitles: str = ""


class Frames(BaseModel):
    """The frames, in the order of the pictures."""

    frames: list[Shown]
    evidence: list[Evidence]


class FrameText(BaseModel):
    """What is written in a frame."""

    time: float = Field(description="seconds")
    text: str


class Texts(BaseModel):
    """What is written in each frame."""

    texts: list[FrameText]
    evidence: list[Evidence]


class Line(BaseModel):
    """A subtitle line."""

    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    text: str


class Lines(BaseModel):
    """Subtitle lines, in order of time."""

    lines: list[Line]
    left_out: int = Field(default=0, description="more lines of that part than were asked for")
    evidence: list[Evidence]


class Located(BaseModel):
    """Where a thing is in a frame."""

    time: float = Field(description="seconds")
    box: list[float] = Field(description="x0, y0, x1, y1 in shares of the picture, 0 to 1")
    label: str
    score: float


class Boxes(BaseModel):
    """The things that were found."""

    boxes: list[Located]
    evidence: list[Evidence]


class Answered(BaseModel):
    """The answer to a question, how it came about, and what it rests on."""

    text: str
    letter: str | None = None
    choice: str | None = None
    confidence: float | None = Field(
        default=None, description="null if no call gave one, as when an agent names its answer"
    )
    probabilities: dict[str, float] = {}
    is_fallback: bool = Field(
        default=False, description="this is the model's direct answer: the method gave none"
    )
    notes: list[str] = []
    steps: list[dict[str, Any]] = Field(description="plans, calls and steps, in order")
    evidence: list[Evidence]
    cost: dict[str, float]


def structured(result: BaseModel, images: Sequence[ContentBlock] = ()) -> CallToolResult:
    """A result for programs, and as text for those that read nothing else."""
    text = TextContent(type="text", text=result.model_dump_json(exclude_none=True))
    return CallToolResult(content=[text, *images], structured_content=result.model_dump(mode="json"))


def with_evidence(
    kind: type[BaseModel], tools: VideoTools, images: Sequence[ContentBlock] = (), **values: Any
) -> CallToolResult:
    """A result of this kind, with what the film's tools have looked at and found."""
    return structured(kind(**values, evidence=tools.evidence), images)


def doing_of(event: dict[str, Any]) -> str | None:
    """What a client is told of an event."""
    kind = event["type"]
    if kind == "wait":
        return str(event["doing"])
    if kind == "reply":
        return "a program was written"
    if kind == "call":
        return f"{event['name']}: {event['result']}"[:200]
    if kind == "execution":
        return f"the program ended: {event['status']}"
    return f"step {event['number']}: {event['kind']}" if kind == "step" else None


def answered(events: Sequence[dict[str, Any]]) -> CallToolResult:
    """The result of a question, by all its events. Raises ConfigError if it has no answer."""
    answer = events[-1]
    if answer["type"] == "error":
        raise ConfigError(f"the question could not be answered: {answer['error']['message']}")
    names = set(Answered.model_fields) - {"steps", "evidence"}
    return structured(
        Answered(
            **{name: answer[name] for name in names},
            steps=[event for event in events if event["type"] in _STEPS],
            evidence=[Evidence(**event) for event in events if event["type"] == "evidence"],
        )
    )
