"""Structured replies: the JSON object in a model's reply, checked against a pydantic schema.

A reply may hold thoughts and prose around the object, as replies of language models do. Nothing is guessed: a
reply without an object that fits is `UnparsedReply`, whose message says what is wrong, for the model and for
the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from videopro.question import Question, extract_letter, spoken
from videopro.storage import InvalidJson, parse_json_at

SchemaT = TypeVar("SchemaT", bound=BaseModel)

# Mistakes that are named to the model; more would not fit a short repair prompt.
_MISTAKES = 3


class UnparsedReply(ValueError):
    """A reply that does not fit its schema; the message says why, and names no text of ours."""


def parse_reply(text: str, schema: type[SchemaT]) -> SchemaT:
    """The first JSON object in `text` that fits `schema`; thoughts are left out. Raises UnparsedReply, with
    the mistakes of the first object if none fits."""
    text = spoken(text)
    first: str | None = None
    start = text.find("{")
    while start >= 0:
        try:
            value, end = parse_json_at(text, start)
        except InvalidJson as error:
            first = first or f"not valid JSON: {error}"
            end = start + 1
        else:
            try:
                return schema.model_validate(value)
            except ValidationError as error:
                first = first or _mistakes(error)
        start = text.find("{", end)
    raise UnparsedReply(first or "there is no JSON object in the reply")


def plain(value: BaseModel) -> dict[str, Any]:
    """A parsed reply as a trace stores it: a JSON object, also for a schema whose root is a mapping."""
    content = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return content if isinstance(content, dict) else {"root": content}


def answer_type(question: Question) -> Any:
    """The type of an answer in a schema: a letter of the question, or words if it is open. What a model
    writes around a letter is read: "(B) blue" is B."""
    if question.is_open:
        return Annotated[str, Field(min_length=1)]
    return Annotated[Literal[question.letters], BeforeValidator(lambda value: _letter(value, question))]


def number_type(numbers: Sequence[int]) -> Any:
    """The type of one of these numbers in a schema; "3" is 3."""
    return Annotated[Literal[tuple(numbers)], BeforeValidator(_number)]


def _letter(value: Any, question: Question) -> Any:
    letter = extract_letter(value, question) if isinstance(value, str) else None
    return value if letter is None else letter


def _number(value: Any) -> Any:
    # True is 1 to Python.
    if isinstance(value, bool):
        return str(value)
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _mistakes(error: ValidationError) -> str:
    """What does not fit, in the schema's own words."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    named = [
        f"{'.'.join(map(str, each['loc'])) or 'the object'}: {each['msg']}" for each in errors[:_MISTAKES]
    ]
    more = len(errors) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")
