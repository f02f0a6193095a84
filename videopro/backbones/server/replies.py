"""A chat-completions reply with log-probabilities, read as an `Answer` or a `Generation`.

Knows the reply's shape and Eq. 2. Knows nothing of HTTP, frames or questions.

Which token counts for a letter: the reply's first token, and only if its text, without the white space
around it, is exactly that letter. A tokenizer may hold several such tokens ("A", " A"). Eq. 2 is the
probability of the one token that was answered with, so of several variants the likeliest one counts and
they are never added up; `letters[answer.letter]` is then `answer.confidence`, as with a local model. A server
lists the 20 likeliest tokens: a letter outside them gets 0.0; its true probability is at most that of the
last one listed, and so at most 1/21.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from videopro.backbones.base import Generation
from videopro.errors import BackboneError
from videopro.question import Answer
from videopro.storage import encodable

if TYPE_CHECKING:
    from videopro.backbones.server.completion import Choice, Completion, Token

TOP_LOGPROBS = 20
# A probability of 1 may come out above it by so much.
_ROUNDING = 1e-2

NO_LOGPROBS = (
    "gives no log-probabilities, without which there is no confidence. vLLM gives them unless it was started "
    "with --max-logprobs below 20; of other servers and of OpenAI's models choose one that supports "
    "'logprobs' and 'top_logprobs'"
)
THINKS = (
    "thinks before it answers, so its first token is no letter; turn thinking off: extra_body "
    '{"chat_template_kwargs": {"enable_thinking": false}}, or a model without it'
)

# End-of-sequence tokens as servers spell them, where they list them at all.
_END = re.compile(r"<\|[^|<>]*\|>|<｜[^｜<>]*｜>|</s>|<eos>|<end_of_turn>|<turn\|>|")
_THINK_START = "<think>"
_THINK_END = "</think>"


def read_choice(reply: Completion, labels: Sequence[str], server: str) -> Answer:
    """The answer among `labels` (letters, or Yes and No) that a one-token reply gives.

    Raises `BackboneError`, naming `server`, for a reply without log-probabilities or with thoughts in it.
    """
    choice = reply.choices[0]
    tokens_in, tokens_out = _usage(reply, server)
    entries = _entries(choice, server)
    if _thoughts(choice) or (entries and entries[0].token.strip() == _THINK_START):
        raise BackboneError(f"{server} {THINKS}")
    if not entries:
        return Answer(None, 0.0, dict.fromkeys(labels, 0.0), "", tokens_in, tokens_out)

    first = entries[0]
    listed = [(first.token, first.logprob)] + [(top.token, top.logprob) for top in first.top_logprobs or ()]
    letters = {
        label: max(
            (_probability(logprob) for token, logprob in listed if token.strip() == label), default=0.0
        )
        for label in labels
    }
    # max keeps the first of equals: the token that the server itself answered with.
    best, logprob = max(listed, key=lambda entry: entry[1])
    letter = best.strip()
    if letter not in letters:
        return Answer(None, 0.0, letters, encodable(best), tokens_in, tokens_out)
    return Answer(letter, _probability(logprob), letters, best, tokens_in, tokens_out)


def read_generation(reply: Completion, server: str) -> Generation:
    """The written reply, its end-of-sequence token left out.

    Thoughts that a server sets apart (`reasoning_content`, `reasoning`) are neither in the text nor in the
    log-probabilities. `token_ids` are there if the server lists them (vLLM: extra_body
    {"return_token_ids": true}).
    """
    choice = reply.choices[0]
    tokens_in, _ = _usage(reply, server)
    text = encodable(choice.message.content or "")
    entries = _entries(choice, server)
    ids = list(choice.token_ids or ())
    if ids and len(ids) != len(entries):
        raise BackboneError(f"{server} lists {len(ids)} token ids but {len(entries)} log-probabilities")
    if _thoughts(choice):
        # Without a closing mark the budget ran out within the thoughts: there is no reply.
        ends = [place for place, entry in enumerate(entries) if entry.token.strip() == _THINK_END]
        start = ends[-1] + 1 if ends else len(entries)
        while start < len(entries) and not entries[start].token.strip():
            start += 1
        entries, ids = entries[start:], ids[start:]
    finish = _finish(choice, server)
    if finish == "stop" and entries and _END.fullmatch(entries[-1].token):
        entries, ids = entries[:-1], ids[:-1]
    return Generation(
        text=text,
        token_ids=tuple(ids),
        logprobs=tuple(min(0.0, float(entry.logprob)) for entry in entries),
        finish=finish,
        tokens_in=tokens_in,
    )


def prompt_tokens(reply: Completion, server: str) -> int:
    """Prompt tokens as the server counted them, visual ones included."""
    return _usage(reply, server)[0]


def _probability(logprob: float) -> float:
    return math.exp(min(0.0, logprob))


def _entries(choice: Choice, server: str) -> list[Token]:
    """What the server lists for each token of the reply; empty only for an empty reply."""
    listed = choice.logprobs.content if choice.logprobs is not None else None
    if listed is None or (not listed and choice.message.content):
        raise BackboneError(f"{server} {NO_LOGPROBS}")
    for entry in listed:
        numbers = [entry.logprob, *(top.logprob for top in entry.top_logprobs or ())]
        if not all(number <= _ROUNDING for number in numbers):  # nor is NaN
            raise BackboneError(
                f"{server} lists a log-probability that is no number of 0 or less, at token {entry.token!r}"
            )
        if re.fullmatch(r"token_id:\d+", entry.token):
            raise BackboneError(
                f"{server} names tokens by their ids; start it without --return-tokens-as-token-ids"
            )
    return list(listed)


def _thoughts(choice: Choice) -> str:
    message = choice.message
    return message.reasoning_content or message.reasoning or ""


def _finish(choice: Choice, server: str) -> Literal["stop", "length"]:
    if choice.finish_reason == "stop":
        return "stop"
    if choice.finish_reason == "length":
        return "length"
    raise BackboneError(f"{server} ended a reply with {choice.finish_reason!r} instead of 'stop' or 'length'")


def _usage(reply: Completion, server: str) -> tuple[int, int]:
    if reply.usage is None:
        raise BackboneError(f"{server} does not tell how many tokens it read ('usage' is missing)")
    return reply.usage.prompt_tokens, reply.usage.completion_tokens
