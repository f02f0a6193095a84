"""What the tools return, as JSON: the same in Python and over MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

Time = Annotated[float, Field(description="seconds")]
ShareBox = Annotated[list[float], Field(description="[x0, y0, x1, y1] as shares of the frame, 0 to 1")]


class Evidence(BaseModel):
    """A piece of what a call looked at or found."""

    kind: str = Field(description="frames, interval, subtitle, text or box")
    start: Time
    end: Time
    time: Time | None = Field(default=None, description="seconds, for a single frame")
    box: ShareBox | None = None
    text: str | None = None
    source: str = Field(description="the call or step that it comes from")


class Clip(BaseModel):
    """A part of the video."""

    start: Time
    end: Time
    score: float | None = None
    subtitles: str = ""


class Clips(BaseModel):
    """Clips in order of time."""

    clips: list[Clip]


class ShownFrame(BaseModel):
    """A frame whose image comes with the result."""

    time: Time
    width: int = Field(description="of the image, in pixels")
    height: int
    subtitles: str = ""


class Frames(BaseModel):
    """Frames in order of time, which is the order of the images."""

    frames: list[ShownFrame]


class FrameText(BaseModel):
    """The text in a frame."""

    time: Time
    text: str


class Texts(BaseModel):
    """The text in each frame."""

    texts: list[FrameText]


class Line(BaseModel):
    """A subtitle line."""

    start: Time
    end: Time
    text: str


class Lines(BaseModel):
    """Subtitle lines in order of time."""

    lines: list[Line]


class Transcript(Lines):
    """Subtitle lines in order of time, with the number of lines beyond the limit."""

    left_out: int = Field(description="later lines; to read them, start at the end of the last line")


class LocatedBox(BaseModel):
    """Where a thing is in a frame."""

    time: Time
    box: ShareBox
    label: str
    score: float


class Boxes(BaseModel):
    """Boxes of all frames, best first in each."""

    boxes: list[LocatedBox]


class Answer(BaseModel):
    """The answer to a question."""

    answer: str = Field(description="the text of the choice, or words")
    letter: str | None = Field(default=None, description="of the choice")
    confidence: float | None = Field(default=None, description="0 to 1; null if none was measured")
    probabilities: dict[str, float] = Field(default={}, description="of each choice, by its letter")
    evidence: list[Evidence]
