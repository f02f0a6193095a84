"""Reads what a served model replied, whatever its server: text, thoughts, what ended it, log-probabilities.

All that asks a server reads its replies here: answers, planners, teachers, agents and judges.

Which token counts for a letter: the reply's first token, and only if its text, without surrounding white
space and characters that no reader sees, is exactly that letter (a full-width one too). A tokenizer may have
several such tokens ("A", " A"). Eq. 2 is the probability of the single token that was generated, so only the
most likely variant counts and variants are never summed; `letters[answer.letter]` then equals
`answer.confidence`, as with a local model. A server lists the 20 most likely tokens: a letter outside them
gets 0.0; its true probability is at most that of the last listed token, and so at most 1/21.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from videopro.backbones.base import Generation
from videopro.backbones.texts import without_thoughts
from videopro.errors import BackboneError
from videopro.question import Answer, is_thinking, spoken_part, visible
from videopro.storage import InvalidJson, encodable, parse_json, printable

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
    """A reply that is neither a chat completion nor a list of models; the message has the reason."""


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


# ---- text, thoughts and end --------------------------------------------------------------------------------

# What servers write into `finish_reason`, in lower case with underscores.
_CUT = {
    *("length", "max_tokens", "max_length", "max_new_tokens", "max_output_tokens", "token_limit"),
    *("model_length", "model_context_window_exceeded", "max_context_length", "incomplete"),
}
_ENDED = {
    *("stop", "eos", "eos_token", "end", "end_turn", "stop_sequence", "stop_token", "stop_str", "complete"),
    *("completed", "done", "finished", "tool_calls", "tool_use", "function_call"),
}
_FAILED = {
    *("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "refusal"),
    *("error", "abort", "aborted", "cancel", "cancelled", "canceled", "timeout", "malformed_function_call"),
}
_LONGEST_REASON = 60


@dataclass(frozen=True)
class ServedReply:
    """A server's first choice."""

    text: str
    """Without thoughts; empty if there is none."""
    thoughts: str
    cut_at: int | None
    """The token limit that cut the reply off; None: the model ended it."""
    tokens_in: int
    tokens_out: int
    """With those of the thoughts; 0 from a server that does not count."""
    calls: tuple[CalledTool, ...] = ()

    @property
    def why_empty(self) -> str:
        """Why there is no text, and the fix."""
        if self.cut_at is not None:
            doing = "while the model was thinking" if self.thoughts else "before the model wrote anything"
            return (
                f"the reply has no text: the limit of {self.cut_at} tokens ended it {doing}; raise "
                "max_new_tokens, or turn thinking off"
            )
        return "the reply has no text" + (" besides thoughts" if self.thoughts else "")


def read_reply(completion: Completion, server: str, limit: int) -> ServedReply:
    """The first choice of a completion of at most `limit` tokens. Raises BackboneError, naming `server`, for
    a reply that the server broke off."""
    message, usage = completion.choices[0].message, completion.usage
    is_cut = read_finish(completion, server, limit) == "length"
    content = encodable(message.content or "")
    spoken = spoken_part(content)
    return ServedReply(
        content[spoken],
        encodable(message.thoughts) + content[: spoken.start] + content[spoken.stop :],
        limit if is_cut else None,
        usage.prompt_tokens if usage else 0,
        usage.completion_tokens if usage else 0,
        tuple(message.tool_calls or ()),
    )


def read_finish(completion: Completion, server: str, limit: int) -> Literal["stop", "length"]:
    """Whether the model ended a reply of at most `limit` tokens. A server that gives no known reason is
    judged by the number of its tokens. Raises BackboneError for one that says that it failed."""
    server_reason = completion.choices[0].finish_reason or ""
    reason = re.sub(r"[\s-]+", "_", server_reason.strip()).lower()
    reason = re.sub(r"^(?:finish_?reason[._])", "", reason)
    if reason in _CUT:
        return "length"
    if reason in _FAILED:
        raise BackboneError(
            f"{server} ended a reply with {encodable(server_reason)[:_LONGEST_REASON]!r}: it did not finish "
            "or return the reply"
        )
    if reason in _ENDED:
        return "stop"
    usage = completion.usage
    return "length" if usage is not None and usage.completion_tokens >= limit else "stop"


# ---- log-probabilities -------------------------------------------------------------------------------------

TOP_LOGPROBS = 20
# Rounding may make a log-probability positive by at most this.
_ROUNDING = 1e-2

NO_LOGPROBS = (
    "returns no log-probabilities, which confidence needs. Start vLLM without --max-logprobs below 20; with "
    "other servers and OpenAI, choose a model that supports 'logprobs' and 'top_logprobs'"
)
_THINKS_FIRST = (
    "thinks before answering, so its first token is not a letter; turn thinking off with extra_body "
    '{"chat_template_kwargs": {"enable_thinking": false}}, let it generate its answer (method native: '
    "--options reply=text reply_tokens=4096), or use a model without thinking"
)
_TEXT_UNMATCHED = (
    "returns thoughts separately but lists log-probabilities of all tokens, among which its text is not "
    'found, so confidence is unknown; turn thinking off with extra_body {"chat_template_kwargs": '
    '{"enable_thinking": false}}, or start the server without its reasoning parser'
)

# End-of-sequence tokens as servers write them, if they list them at all.
_END = re.compile(r"<\|[^|<>]*\|>|<｜[^｜<>]*｜>|</s>|<eos>|<end_of_turn>|<turn\|>|")
_THINK_END = "</think>"


def read_choice(completion: Completion, labels: Sequence[str], server: str) -> Answer:
    """Read a one-token reply as an answer among `labels` (letters, or Yes and No).

    Raises `BackboneError`, naming `server`, for a reply without log-probabilities or with thoughts.
    """
    choice = completion.choices[0]
    if completion.is_aborted:
        # Without a token, which would count as no answer.
        read_finish(completion, server, 1)
    usage = _usage(completion, server)
    tokens = _tokens(choice, server)
    if choice.message.thoughts or (tokens and is_thinking(tokens[0].token)):
        raise BackboneError(f"{server} {_THINKS_FIRST}")
    if not tokens:
        counts = usage.prompt_tokens, usage.completion_tokens
        return Answer(None, 0.0, dict.fromkeys(labels, 0.0), "", *counts)

    candidates = [tokens[0], *(tokens[0].top_logprobs or ())]
    letters = {
        label: max(
            (_probability(candidate) for candidate in candidates if _visible_text(candidate) == label),
            default=0.0,
        )
        for label in labels
    }
    # On a tie, max keeps the first: the token that the server itself generated.
    best = max(candidates, key=lambda candidate: candidate.logprob)
    letter = _visible_text(best)
    is_letter = letter in letters
    return Answer(
        letter if is_letter else None,
        _probability(best) if is_letter else 0.0,
        letters,
        encodable(best.token),
        usage.prompt_tokens,
        usage.completion_tokens,
    )


def read_generation(completion: Completion, server: str, limit: int) -> Generation:
    """Read a generated reply of at most `limit` tokens, without its end-of-sequence token.

    Thoughts are neither in the text nor in the log-probabilities, whether the server separates them
    (`reasoning_content`, `reasoning`) or leaves them in the text. `token_ids` is filled if the server lists
    them (vLLM: extra_body {"return_token_ids": true}). Raises `BackboneError`, naming `server`.
    """
    choice = completion.choices[0]
    usage = _usage(completion, server)
    text, thoughts = encodable(choice.message.content or ""), encodable(choice.message.thoughts)
    tokens = _tokens(choice, server)
    ids = list(choice.token_ids or ())
    if ids and len(ids) != len(tokens):
        raise BackboneError(f"{server} lists {len(ids)} token ids but {len(tokens)} log-probabilities")
    start = 0
    if thoughts:
        start = _start_of_text([encodable(token.token) for token in tokens], text, server)
        while start < len(tokens) and not tokens[start].token.strip():
            start += 1
    end = len(tokens)
    finish = read_finish(completion, server, limit)
    if finish == "stop" and end > start and _END.fullmatch(tokens[-1].token):
        end -= 1
    generation = Generation(
        text=text,
        token_ids=tuple(ids[start:end]),
        logprobs=tuple(min(0.0, float(token.logprob)) for token in tokens[start:end]),
        finish=finish,
        tokens_in=usage.prompt_tokens,
        tokens=tuple(encodable(token.token) for token in tokens[start:end]),
        thoughts=thoughts,
        thought_tokens=start,
    )
    return without_thoughts(generation)


def _start_of_text(tokens: Sequence[str], text: str, server: str) -> int:
    """The index of the first token of a text whose thoughts the server sets apart. It lists all tokens,
    whatever ends the thoughts, or those of the text only. Raises `BackboneError` if the text is not among
    them."""
    ends = [index for index, token in enumerate(tokens) if token.strip() == _THINK_END]
    text = text.strip()
    if not text:
        # Without an end marker, the token budget ran out during the thoughts: there is no reply.
        return ends[-1] + 1 if ends else len(tokens)
    last = len(tokens)
    while last and _END.fullmatch(tokens[last - 1].strip()):
        last -= 1
    # Compared by characters: servers change white space, and a character of several tokens is in none of
    # them, but in the text.
    characters = [
        (index, character)
        for index, token in enumerate(tokens[:last])
        for character in token
        if not character.isspace() and character != "\ufffd"
    ]
    alphabet = {character for _, character in characters}
    has_parts = any("\ufffd" in token for token in tokens)
    compared = [
        character
        for character in text
        if not character.isspace() and (character in alphabet or not has_parts)
    ]
    tail = characters[-len(compared) :]
    if text[0] in alphabet and [character for _, character in tail] == compared:
        return tail[0][0]
    if ends:
        return ends[-1] + 1
    if "".join(tokens).strip().startswith(text):
        return 0
    raise BackboneError(f"{server} {_TEXT_UNMATCHED}")


def prompt_tokens(completion: Completion, server: str) -> int:
    """Prompt tokens as the server counted them, visual ones included."""
    return _usage(completion, server).prompt_tokens


def _visible_text(token: TopToken) -> str:
    """The visible text of a token."""
    return unicodedata.normalize("NFKC", visible(token.token)).strip()


def _probability(token: TopToken) -> float:
    return math.exp(min(0.0, token.logprob))


def _tokens(choice: Choice, server: str) -> list[Token]:
    """Each token of the reply with its log-probability; empty only for an empty reply."""
    tokens = choice.logprobs.content if choice.logprobs is not None else None
    if tokens is None or (not tokens and choice.message.content):
        raise BackboneError(f"{server} {NO_LOGPROBS}")
    for token in tokens:
        candidates = (token, *(token.top_logprobs or ()))
        if not all(candidate.logprob <= _ROUNDING for candidate in candidates):  # also catches NaN
            raise BackboneError(
                f"{server} lists a log-probability that is not 0 or less, at token {token.token!r}"
            )
        if re.fullmatch(r"token_id:\d+", token.token):
            raise BackboneError(
                f"{server} returns tokens as ids; start it without --return-tokens-as-token-ids"
            )
    return tokens


def _usage(completion: Completion, server: str) -> Usage:
    if completion.usage is None:
        raise BackboneError(f"{server} does not report token counts ('usage' is missing)")
    return completion.usage
