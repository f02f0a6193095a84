"""The prompts of VideoAgent, in our words, and the schemas of the replies. Where the model sees frames, they
come before the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel, Field, create_model

from videopro.methods.agents import answer_type, number_type, question_text
from videopro.methods.videoagent.timeline import VideoSegment
from videopro.question import Question, prompts

LEVELS = (1, 2, 3)
"""Confidence: insufficient, partial or sufficient information (section 3.2)."""
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

    segment_id: ClassVar[None] = None
    """Anywhere."""


class SegmentDescription(BaseModel):
    """A frame to look for in a segment. No subclass of the other, whose fields would come first: a model that
    is constrained to the schema writes the segment first, as the prompt shows it."""

    segment_id: int
    duration: str = ""
    """The segment's times in the model's own words; not used."""
    description: str = Field(min_length=1)


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


@dataclass(frozen=True)
class State:
    """What the model knows of the video."""

    duration: float
    """Seconds."""
    times: tuple[float, ...]
    """Seconds of the seen frames, ascending."""
    captions: tuple[str, ...] = ()
    """What each shows; empty: the model is shown the frames."""
    said: str = ""
    """The subtitle lines at these frames."""


def caption_prompt(is_detailed: bool) -> str:
    """Ask what a frame or a clip shows (section 3.1)."""
    if is_detailed:
        return (
            "Describe in detail what is shown: who and what is there, what they do, where, and how it looks."
        )
    return prompts.caption()


def predict_prompt(question: Question, state: State) -> str:
    """Ask for an answer by what is known, with the reasons (the first of the three steps of section 3.2)."""
    return (
        f"{state_text(state)}\nQuestion: {question_text(question)}\n"
        "Say in a few words what speaks for which answer, then give the answer that is most likely right. "
        f'Reply with JSON only, as in {{"reasoning": "...", "final_answer": "{_example(question)}"}}'
    )


def reflect_prompt(question: Question, state: State, prediction: Prediction) -> str:
    """Ask how far what is known supports the answer (the second step)."""
    answer = prediction.final_answer
    if not question.is_open:
        answer = f"{answer}. {question.choice(answer)}"
    return (
        f"{state_text(state)}\nQuestion: {question_text(question)}\nYour answer: {answer}\n"
        f"Your reasons: {prediction.reasoning}\n"
        "Is this known well enough to answer? 1: no, too little is known. 2: in part. 3: yes. "
        'Reply with JSON only, as in {"confidence": 2}'
    )


def search_prompt(question: Question, state: State, segments: Sequence[VideoSegment]) -> str:
    """Ask what is missing, and in which segments to look for it (section 3.3); without segments: anywhere."""
    parts = [state_text(state), f"Question: {question_text(question)}", "Too little is known to answer."]
    form = '{"description": "..."}'
    where = ""
    if segments:
        part_lines = "\n".join(f"{each.number}: {each.start:.1f}-{each.end:.1f} s" for each in segments)
        parts.append(f"Parts of the video between the frames:\n{part_lines}")
        where = ", and the part that holds it"
        first = segments[0]
        span = f"{first.start:.1f}-{first.end:.1f}"
        form = f'{{"segment_id": {first.number}, "duration": "{span}", "description": "..."}}'
    parts.append(
        f"Name the frames that you need to see: what each one shows{where}. One frame is looked for with "
        f'each description. Reply with JSON only, as in {{"frame_descriptions": [{form}, ...]}}'
    )
    return "\n".join(parts)


def state_text(state: State) -> str:
    """What is known, as every prompt begins."""
    head = f"A video lasts {state.duration:.1f} seconds."
    subtitles = [prompts.said_at_frames(state.said)] if state.said else []
    if not state.captions:
        times = ", ".join(f"{time:.1f}" for time in state.times)
        return "\n".join([f"{head} The frames are from these times in seconds: {times}", *subtitles])
    lines = [f"{time:.1f} s: {text}" for time, text in zip(state.times, state.captions, strict=True)]
    return "\n".join([f"{head} Some of its frames show:", *lines, *subtitles])


def _example(question: Question) -> str:
    return "a few words" if question.is_open else "A"
