"""The parts of a chat completion that this project uses, parsed and checked.

Servers omit and add fields as they like, so other fields are ignored, and only `choices` must be there;
`replies` checks that a reply has what a call needs, such as log-probabilities and token counts. The `openai`
package's own types do not serve here: checked, they refuse replies that servers give (without an id or a
role, with an end that OpenAI does not have), and unchecked they hold whatever came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from videopro.storage import InvalidJson, parse_json, printable

# An upper bound for token ids and token counts; a larger number is invalid.
_Count = Annotated[int, Field(ge=0, le=2**40)]
_LONGEST_PATH = 4096
_LONGEST_VERSION = 100
# Maximum characters of a server's error message.
_LONGEST_MESSAGE = 400
# Fields of a message, and types of parts, that hold thoughts; types of parts that are text. Other parts, such
# as pictures, are neither.
_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_THOUGHT_TYPES = ("thinking", "reasoning", "reasoning_content", "thought", "redacted_thinking")
_TEXT_TYPES = ("text", "output_text", "refusal", "")
_ABORTED = ("abort", "aborted")
# Fields of a part that hold its text.
_TEXT_FIELDS = ("text", "thinking", "reasoning", "refusal", "summary", "content", "value")


class InvalidReply(Exception):
    """A reply that is not a chat completion, or not a list of models; the message says why."""


class TopToken(BaseModel):
    """A candidate token and its log-probability."""

    token: str
    logprob: Annotated[float, Field(strict=True)]


class Token(TopToken):
    """A generated token, with the most likely candidates for its place."""

    top_logprobs: list[TopToken] | None = None


class Logprobs(BaseModel):
    content: list[Token] | None = None


class CalledFunction(BaseModel):
    """The tool that a model calls, and its arguments as the model wrote them."""

    name: str
    arguments: str = ""


class CalledTool(BaseModel):
    """A call of a tool."""

    id: str = ""
    function: CalledFunction


class Message(BaseModel):
    """The reply's text, its thoughts if the server separates them, and the tools that it calls."""

    content: str | None = None
    thoughts: str = ""
    tool_calls: list[CalledTool] | None = None

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, message: Any) -> Any:
        """The parts of the text joined, and all that servers call thoughts."""
        if not isinstance(message, dict):
            return message
        thoughts = [_text(message[name]) for name in _THOUGHT_FIELDS if message.get(name)]
        content = message.get("content")
        parts = [content] if isinstance(content, dict) else content
        if isinstance(parts, list):
            if parts and not message.get("tool_calls") and not message.get("refusal"):
                _check_parts(parts)
            content = "".join(_text(part) for part in parts if _type(part) in _TEXT_TYPES)
            thoughts += [_text(part) for part in parts if _type(part) in _THOUGHT_TYPES]
        if not content and isinstance(message.get("refusal"), str):
            content = message["refusal"]
        # Servers that are asked for both names give the same thoughts twice.
        return {**message, "content": content, "thoughts": "".join(dict.fromkeys(thoughts))}


class Choice(BaseModel):
    message: Message
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    token_ids: list[_Count] | None = None

    @field_validator("finish_reason", mode="before")
    @classmethod
    def _reason_text(cls, reason: Any) -> Any:
        """SGLang's own form is an object with a type. Others write the number of a reason, which `replies`
        takes for none."""
        reason = reason.get("type") if isinstance(reason, dict) else reason
        return str(reason) if isinstance(reason, int | float) else reason


class Usage(BaseModel):
    prompt_tokens: _Count
    completion_tokens: _Count


class Completion(BaseModel):
    """A chat completion with at least one choice."""

    choices: Annotated[list[Choice], Field(min_length=1)]
    usage: Usage | None = None
    prompt_token_ids: list[_Count] | None = None
    """The prompt as the model saw it, if the request asked for it (vLLM: return_token_ids)."""

    @property
    def is_aborted(self) -> bool:
        """Whether the server broke the reply off, in the middle or before its first token: vLLM gives what
        there is of each when it is stopped, with status 200."""
        return (self.choices[0].finish_reason or "").strip().lower() in _ABORTED


def read_completion(body: bytes) -> Completion:
    """The completion in a reply's body. Raises InvalidReply."""
    content = _object(body)
    if content.get("error"):
        error = content["error"]
        message = error.get("message") if isinstance(error, dict) else None
        raise InvalidReply(f"an error: {str(message or error)[:_LONGEST_MESSAGE]}")
    choices = content.get("choices")
    if not choices:
        raise InvalidReply("no choices in it")
    if isinstance(choices, list) and isinstance(choices[0], dict) and choices[0].get("message") is None:
        raise InvalidReply("no message in its first choice")
    try:
        return Completion.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidReply(f"{path}: {first['msg']}") from None


def read_version(body: bytes) -> str:
    """The version in vLLM's reply to /version. Raises InvalidReply."""
    version = _object(body).get("version")
    if not isinstance(version, str):
        raise InvalidReply("no version in it")
    return printable(version, _LONGEST_VERSION)


def read_models(body: bytes) -> list[dict[str, Any]]:
    """The entries of a list of models. Raises InvalidReply."""
    cards = _object(body).get("data")
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        raise InvalidReply("no list of models in it")
    # They go into messages and records: names, folders, owners.
    return [
        {
            name: printable(value, _LONGEST_PATH)
            if isinstance(value, str) and not value.isprintable()
            else value
            for name, value in card.items()
        }
        for card in cards
    ]


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


def _type(part: Any) -> str:
    return str(part.get("type") or "").lower() if isinstance(part, dict) else ""


def _text(part: Any) -> str:
    """The text of a part, or of a list of parts."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        return next((_text(part[name]) for name in _TEXT_FIELDS if part.get(name)), "")
    return "".join(map(_text, part)) if isinstance(part, list) else ""


def _check_parts(parts: list[Any]) -> None:
    """Raise ValueError if no part is of a form with text or thoughts: not to be taken for an empty reply."""
    for part in parts:
        has_text = isinstance(part, str) or (
            isinstance(part, dict) and any(name in part for name in _TEXT_FIELDS)
        )
        if _type(part) in _THOUGHT_TYPES or (_type(part) in _TEXT_TYPES and has_text):
            return
    types = ", ".join(dict.fromkeys(_type(part) or type(part).__name__ for part in parts))
    raise ValueError(
        f"none of its parts has a known text (their types: {printable(types, _LONGEST_MESSAGE)})"
    )
