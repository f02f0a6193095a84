"""What the language model of VideoAgent replies in its three steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, create_model

from videopro.methods.agents import answer_type, number_type
from videopro.methods.videoagent.settings import LEVELS
from videopro.question import Question

_LEVEL: Any = number_type(LEVELS)


class Prediction(BaseModel):
    """The answer by what is known so far, and why; made by `prediction_of`."""

    reasoning: str
    final_answer: str


class Confidence(BaseModel):
    """Whether what is known is insufficient (1), partial (2) or sufficient (3)."""

    confidence: _LEVEL


class FrameDescription(BaseModel):
    """A frame to look for."""

    segment_id: int | None = None
    """The segment to look in; None: anywhere."""
    duration: str = ""
    """The segment's times in the model's own words; not used."""
    description: str = Field(min_length=1)
    """What the frame shows: the query."""


class FrameDescriptions(BaseModel):
    """The frames to look for; made by `descriptions_of`."""

    frame_descriptions: list[FrameDescription] = Field(min_length=1)


def prediction_of(question: Question) -> type[Prediction]:
    """The schema of a prediction about the question."""
    answer: Any = answer_type(question)
    return create_model("Prediction", __base__=Prediction, final_answer=(answer, ...))


def descriptions_of(segments: Sequence[int]) -> type[FrameDescriptions]:
    """The schema of frames to look for in these segments; none: anywhere in the video."""
    if not segments:
        return FrameDescriptions
    number: Any = number_type(segments)
    one: Any = create_model("FrameDescription", __base__=FrameDescription, segment_id=(number, ...))
    return create_model(
        "FrameDescriptions",
        __base__=FrameDescriptions,
        frame_descriptions=(list[one], Field(min_length=1)),
    )
