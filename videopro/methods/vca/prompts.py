"""The prompts of VCA, in our words (the counterparts of its Figs. 6 to 8), and the schemas of the replies.
Frames come before the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, Field, create_model, model_validator

from videopro.methods.agents import Numbered, answer_type, number_type, numbered_type, question_text
from videopro.methods.vca.tree import Node
from videopro.question import Question, prompts


def reward_prompt(
    question: Question, children: Sequence[Node], history: Sequence[Node], subtitles: str = ""
) -> str:
    """Ask the reward model to score new segments, given the scores of earlier ones (Figs. 6 and 7).
    `subtitles`, here and below: the lines at the frames."""
    parts = ["Which parts of a video show the answer to a question?", f"Question: {question_text(question)}"]
    # Shown so that the scores of different rounds are on one scale, as they compete for being explored.
    if history:
        parts.append("Scores before:\n" + "\n".join(_scored(node) for node in history))
    parts += [prompts.said_at_frames(subtitles)] if subtitles else []
    part_lines = "\n".join(_line(node) for node in children)
    form = f'{{"{children[0].number}": {{"why": "...", "score": 0}}, ...}}'
    parts.append(
        f"New parts, with one frame between each and the next:\n{part_lines}\n"
        "Say in a few words what each new part shows, from the frames at its start and its end, and give it "
        "a score from 0 (nothing of the answer) to 100 (the answer), as the scores before. Reply with JSON "
        f"only, as in {form}"
    )
    return "\n".join(parts)


def explore_prompt(
    question: Question, candidates: Sequence[Node], explored: Sequence[Node], subtitles: str = ""
) -> str:
    """Ask the agent for a segment to look into, or for its answer (Fig. 8)."""
    parts = [
        "Find the answer to a question in a video, one part at a time.",
        f"Question: {question_text(question)}",
    ]
    if explored:
        parts.append("Looked into: " + ", ".join(str(node.number) for node in explored))
    parts += [prompts.said_at_frames(subtitles)] if subtitles else []
    parts.append("Parts to look into, with their scores:\n" + "\n".join(map(_candidate, candidates)))
    parts.append(
        "The frames are what you have kept. Reply with JSON only: with the answer if they show it, as in "
        f"{_answer_form(question)}, or with the part to look into next, mostly one with a high score, as in "
        f'{{"segment": {candidates[0].number}}}'
    )
    return "\n".join(parts)


def look_prompt(
    question: Question, duration: float, seen: Sequence[float], count: int, subtitles: str = ""
) -> str:
    """Ask the agent for moments to look at, or for its answer (the ablation without tree search)."""
    times = ", ".join(f"{time:.1f}" for time in seen)
    spoken = f"{prompts.said_at_frames(subtitles)}\n" if subtitles else ""
    return (
        "Find the answer to a question in a video, a few frames at a time.\n"
        f"Question: {question_text(question)}\n{spoken}"
        f"The video lasts {duration:.1f} seconds. Looked at, in seconds: {times}\n"
        "The frames are what you have kept. Reply with JSON only: with the answer if they show it, as in "
        f"{_answer_form(question)}, or with up to {count} other times in seconds to look at, as in "
        '{"times": [1.5, 20.0]}'
    )


def _answer_form(question: Question) -> str:
    return '{"answer": "a few words"}' if question.is_open else '{"answer": "A"}'


def _line(node: Node) -> str:
    return f"{node.number}: {node.start:.1f}-{node.end:.1f} s"


def _scored(node: Node) -> str:
    score = "no score" if node.score is None else f"{node.score:.0f}"
    return f"{_line(node)}, {score}{f': {node.text}' if node.text else ''}"


def _candidate(node: Node) -> str:
    return _line(node) if node.score is None else f"{_line(node)}, {node.score:.0f}"


class Score(BaseModel):
    """The reward model's word on one segment."""

    why: str = ""
    """What the segment shows: the paper's explanation."""
    score: float = Field(ge=0, le=100)


def scores_of(numbers: Sequence[int]) -> type[Numbered]:
    """The schema {"7": {"why": "...", "score": 40}, ...} with exactly these segments."""
    return numbered_type("segment", numbers, Score)


class Action(BaseModel):
    """Explore a segment, look at more moments, or answer: exactly one of them."""

    segment: int | None = None
    times: list[float] | None = None
    answer: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        actions = [name for name, value in self if value is not None]
        if len(actions) != 1:
            offered = [
                n for n, field in type(self).model_fields.items() if field.annotation is not type(None)
            ]
            raise ValueError(f"give exactly one of {', '.join(offered)}")
        return self


def action_of(question: Question, *, segments: Sequence[int] = (), moments: int = 0) -> type[Action]:
    """The schema of an action: one of the open `segments`, or up to `moments` times in seconds (without tree
    search), or an answer: one of the letters, or words if the question is open."""
    # All three fields are in each schema, with null for what is not offered, so that one class reads any.
    named: dict[str, Any] = {"answer": (answer_type(question) | None, None)}
    named["segment"] = (number_type(segments) | None, None) if segments else (None, None)
    named["times"] = (
        (list[float] | None, Field(None, min_length=1, max_length=moments)) if moments else (None, None)
    )
    return create_model("Action", __base__=Action, **named)
