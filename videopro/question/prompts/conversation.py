"""A question that follows others about the same video: what was asked and answered before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_BEFORE = "Earlier in this conversation about the video:"
_NOW = "The question to answer now:"


@dataclass(frozen=True)
class Exchange:
    """An earlier question and its answer."""

    question: str
    answer: str


def with_conversation(question: str, earlier: Sequence[Exchange]) -> str:
    """The text of a question, after those before it.

    >>> print(with_conversation("And who holds it?", [Exchange("What is on the table?", "A cup.")]))
    Earlier in this conversation about the video:
    Q: What is on the table?
    A: A cup.
    <BLANKLINE>
    The question to answer now: And who holds it?
    """
    if not earlier:
        return question
    lines = [line for each in earlier for line in (f"Q: {each.question}", f"A: {each.answer}")]
    return "\n".join([_BEFORE, *lines, "", f"{_NOW} {question}"])
