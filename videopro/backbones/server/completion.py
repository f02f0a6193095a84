"""What is read of a server's replies, checked where they come in: the parts of a chat completion that the
project uses, each of its own type, or `InvalidReply`.

Servers leave out and add fields as they like, so nothing else is looked at. Whether a reply holds what a call
needs (log-probabilities, token counts) is `server_replies`' to judge. Knows the shape of OpenAI's API, and
nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from videopro.storage import InvalidJson, parse_json

# No prompt or vocabulary is larger; a number beyond it is no count.
_Count = Annotated[int, Field(ge=0, le=2**40)]
# Characters of a server's words on an error.
_WORDS = 400


class InvalidReply(Exception):
    """A reply that is no chat completion, or no list of models; the message says why."""


class TopToken(BaseModel):
    """A token that the model might have written, and its log-probability."""

    token: str
    logprob: Annotated[float, Field(strict=True)]


class Token(TopToken):
    """A token that it wrote, and the likeliest ones in its place."""

    top_logprobs: list[TopToken] | None = None


class Logprobs(BaseModel):
    content: list[Token] | None = None


class Message(BaseModel):
    """Its text, and thoughts that the server set apart from it."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(BaseModel):
    message: Message
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    token_ids: list[_Count] | None = None


class Usage(BaseModel):
    prompt_tokens: _Count
    completion_tokens: _Count


class Completion(BaseModel):
    """A chat completion with at least one choice."""

    choices: Annotated[list[Choice], Field(min_length=1)]
    usage: Usage | None = None


def read_completion(body: bytes) -> Completion:
    """The completion in a reply's body. Raises Malformed."""
    content = _object(body)
    if content.get("error"):
        raise InvalidReply(f"an error: {_error_text(content['error'])}")
    choices = content.get("choices")
    if not choices:
        raise InvalidReply("no choices in it")
    if isinstance(choices, list) and isinstance(choices[0], dict) and choices[0].get("message") is None:
        raise InvalidReply("no message in its first choice")
    try:
        return Completion.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidReply(f"{place}: {first['msg']}") from None


def read_models(body: bytes) -> list[dict[str, Any]]:
    """The entries of a list of models. Raises Malformed."""
    cards = _object(body).get("data")
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        raise InvalidReply("no list of models in it")
    return cards


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        # Python servers write the logarithm of 0 as -Infinity.
        content = parse_json(body, infinite=True)
    except InvalidJson as error:
        streamed = "; it is a stream of events" if body.lstrip().startswith(b"data:") else ""
        raise InvalidReply(f"not JSON: {error}{streamed}") from None
    if not isinstance(content, dict):
        raise InvalidReply(f"not an object ({type(content).__name__})")
    return content


def _error_text(error: object) -> str:
    words = error.get("message") if isinstance(error, dict) else error
    return str(words if words else error)[:_WORDS]
