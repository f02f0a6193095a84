"""What the two models of VCA reply: scores of segments, and the next action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, Field, create_model, model_validator

from videopro.methods.agents import answer_type, number_type
from videopro.question import Question


class Score(BaseModel):
    """The reward model's word on one segment."""

    why: str = ""
    """What the segment shows: the paper's explanation."""
    score: float = Field(ge=0, le=100)


class Scores(BaseModel):
    """A score for each of the segments; made by `scores_of`."""

    def by_number(self) -> dict[int, Score]:
        """The scores by the segments' numbers."""
        return {int(alias): getattr(self, name) for name, alias in self._aliases().items()}

    @classmethod
    def _aliases(cls) -> dict[str, str]:
        return {name: str(field.alias) for name, field in cls.model_fields.items()}


def scores_of(numbers: Sequence[int]) -> type[Scores]:
    """The schema {"7": {"why": "...", "score": 40}, ...} with exactly these segments."""
    named: dict[str, Any] = {f"segment_{n}": (Score, Field(alias=str(n))) for n in numbers}
    return create_model("Scores", __base__=Scores, **named)


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
    named: dict[str, Any] = {"answer": (answer_type(question) | None, None)}
    named["segment"] = (number_type(segments) | None, None) if segments else (None, None)
    named["times"] = (
        (list[float] | None, Field(None, min_length=1, max_length=moments)) if moments else (None, None)
    )
    return create_model("Action", __base__=Action, **named)
