"""What the tools return over MCP beyond what they return in Python, and progress meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic import BaseModel, Field

from videopro.errors import ConfigError
from videopro.modules.tools import Answer, Time

# What an answer's steps are made of; evidence and the answer have their own fields.
_STEPS = ("reply", "call", "execution", "step")


class VideoFile(BaseModel):
    """A video that can be opened."""

    path: str
    bytes: int


class OpenedVideo(BaseModel):
    """An open video."""

    id: str = Field(description="names the video in other calls")
    name: str
    duration: Time
    width: int
    height: int
    has_subtitles: bool


class Opened(BaseModel):
    """The video that was opened, or the videos that can be."""

    video: OpenedVideo | None = None
    videos: list[VideoFile] = []
    left_out: int = Field(default=0, description="more videos in the folders")


class Answered(Answer):
    """The answer to a question, how it came about, and what it rests on."""

    is_fallback: bool = Field(
        default=False, description="this is the model's direct answer: the method gave none"
    )
    notes: list[str] = []
    steps: list[dict[str, Any]] = Field(description="plans, calls and steps, in order")
    cost: dict[str, float]


def structured(result: BaseModel, images: Sequence[ContentBlock] = ()) -> CallToolResult:
    """A result for programs, and as text for those that read nothing else."""
    text = TextContent(type="text", text=result.model_dump_json(exclude_none=True))
    return CallToolResult(content=[text, *images], structured_content=result.model_dump(mode="json"))


def doing_of(event: dict[str, Any]) -> str | None:
    """What a client learns of an event."""
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


def answered(events: Sequence[dict[str, Any]]) -> Answered:
    """The result of a question, by all its events. Raises ConfigError if it has no answer."""
    answer = events[-1]
    if answer["type"] == "error":
        raise ConfigError(f"the question could not be answered: {answer['error']['message']}")
    made = {
        "answer": answer["choice"] or answer["text"],
        "steps": [event for event in events if event["type"] in _STEPS],
        "evidence": [event for event in events if event["type"] == "evidence"],
    }
    return Answered.model_validate({**answer, **made})
