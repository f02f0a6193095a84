"""A question about a film, as it reaches the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from videopro.errors import VideoProError
from videopro.question import Question, prompts, without_own_labels
from videopro.serve.films import Film
from videopro.serve.problems import Problem
from videopro.storage import encodable

LONGEST_TEXT = 20_000
"""Characters of a question, a choice or a message."""


@dataclass(frozen=True)
class AskRequest:
    """A question about a film."""

    film: Film
    question: str
    choices: tuple[str, ...] = ()
    """Empty: it is answered in words."""
    method: str | None = None
    """None: the server's own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the method, over the server's."""
    earlier: tuple[prompts.Exchange, ...] = ()
    """What was asked and answered before it."""
    max_new_tokens: int | None = None
    """Of a direct answer in words; None: the server's own limit."""

    def as_question(self, *, with_earlier: bool = True) -> Question:
        """What the model reads; `with_earlier`: after the earlier messages."""
        text = prompts.with_conversation(encodable(self.question), self.earlier if with_earlier else ())
        if not self.choices:
            return Question.open(text)
        return Question(text, without_own_labels(tuple(map(encodable, self.choices))))


@contextmanager
def called_by_name(names: Mapping[str, str]) -> Iterator[None]:
    """Errors call a film and a model by the names that clients know, and not by their paths or addresses,
    under which `names` has them."""
    try:
        yield
    except VideoProError as error:
        shown = with_names(str(error), names)
        if isinstance(error, Problem) or shown == str(error):
            raise
        raise type(error)(shown) from error


def with_names(message: str, names: Mapping[str, str]) -> str:
    """The message with these names."""
    for inner, name in names.items():
        message = message.replace(inner, name)
    return message
