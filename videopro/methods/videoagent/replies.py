"""What the language model of VideoAgent replies in its three steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

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
    """A frame to look for anywhere in the video."""

    description: str = Field(min_length=1)
    """What the frame shows: the query."""

    @property
    def segment(self) -> int | None:
        """The number of the segment to look in; None: anywhere."""
        return None


class SegmentDescription(BaseModel):
    """A frame to look for in a segment. No subclass of the other, whose fields would come first: a model that
    is constrained to the schema writes the segment first, as the prompt shows it."""

    segment_id: int
    duration: str = ""
    """The segment's times in the model's own words; not used."""
    description: str = Field(min_length=1)

    @property
    def segment(self) -> int | None:
        """As of FrameDescription."""
        return self.segment_id


Description: TypeAlias = FrameDescription | SegmentDescription


class Descriptions(BaseModel):
    """The frames to look for; made by `descriptions_of`."""

    frame_descriptions: Sequence[Description]


def prediction_of(question: Question) -> type[Prediction]:
    """The schema of a prediction about the question."""
    answer: Any = answer_type(question)
    return create_model("Prediction", __base__=Prediction, final_answer=(answer, ...))


def descriptions_of(segments: Sequence[int]) -> type[Descriptions]:
    """The schema of frames to look for in these segments; none: anywhere in the video."""
    one: Any = FrameDescription
    if segments:
        number: Any = number_type(segments)
        one = create_model("SegmentDescription", __base__=SegmentDescription, segment_id=(number, ...))
    return create_model(
        "Descriptions", __base__=Descriptions, frame_descriptions=(list[one], Field(min_length=1))
    )
