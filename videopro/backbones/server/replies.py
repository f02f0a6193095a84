"""Reads an `Answer` or a `Generation` from a chat completion with log-probabilities.

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
from collections.abc import Sequence
from typing import TYPE_CHECKING

from videopro.backbones.base import Generation
from videopro.backbones.server.spoken_reply import finish_of
from videopro.backbones.thinking import without_thoughts
from videopro.errors import BackboneError
from videopro.question import Answer, spoken, visible
from videopro.storage import encodable

if TYPE_CHECKING:
    from videopro.backbones.server.completion import Choice, Completion, Token

TOP_LOGPROBS = 20
# Rounding may make a log-probability positive by at most this.
_ROUNDING = 1e-2

NO_LOGPROBS = (
    "gives no log-probabilities, which confidence needs. vLLM gives them unless it was started "
    "with --max-logprobs below 20; with other servers and OpenAI, choose a model that supports "
    "'logprobs' and 'top_logprobs'"
)
THINKS = (
    "thinks before it answers, so its first token is not a letter; turn thinking off with extra_body "
    '{"chat_template_kwargs": {"enable_thinking": false}}, let it write its answer (method native: --options '
    "reply=text reply_tokens=4096), or use a model without it"
)

UNPLACED = (
    "sets thoughts apart but lists the log-probabilities of all tokens, and its text is not among them, so "
    "confidence cannot be told; turn thinking off with extra_body "
    '{"chat_template_kwargs": {"enable_thinking": false}}, or start the server without its reasoning parser'
)

# End-of-sequence tokens as servers write them, if they list them at all.
_END = re.compile(r"<\|[^|<>]*\|>|<｜[^｜<>]*｜>|</s>|<eos>|<end_of_turn>|<turn\|>|")
_THINK_END = "</think>"


def read_choice(reply: Completion, labels: Sequence[str], server: str) -> Answer:
    """Read a one-token reply as an answer among `labels` (letters, or Yes and No).

    Raises `BackboneError`, naming `server`, for a reply without log-probabilities or with thoughts.
    """
    choice = reply.choices[0]
    tokens_in, tokens_out = _usage(reply, server)
    entries = _entries(choice, server)
    if choice.message.thoughts or (entries and spoken(entries[0].token).is_thinking):
        raise BackboneError(f"{server} {THINKS}")
    if not entries:
        return Answer(None, 0.0, dict.fromkeys(labels, 0.0), "", tokens_in, tokens_out)

    first = entries[0]
    listed = [(first.token, first.logprob)] + [(top.token, top.logprob) for top in first.top_logprobs or ()]
    words = [(_word(token), logprob) for token, logprob in listed]
    letters = {
        label: max((_probability(logprob) for word, logprob in words if word == label), default=0.0)
        for label in labels
    }
    # On a tie, max keeps the first: the token that the server itself generated.
    best, logprob = max(listed, key=lambda entry: entry[1])
    letter = _word(best)
    if letter not in letters:
        return Answer(None, 0.0, letters, encodable(best), tokens_in, tokens_out)
    return Answer(letter, _probability(logprob), letters, best, tokens_in, tokens_out)


def read_generation(reply: Completion, server: str, limit: int) -> Generation:
    """Read a generated reply of at most `limit` tokens, without its end-of-sequence token.

    Thoughts are neither in the text nor in the log-probabilities, whether the server separates them
    (`reasoning_content`, `reasoning`) or leaves them in the text. `token_ids` is filled if the server lists
    them (vLLM: extra_body {"return_token_ids": true}). Raises `BackboneError`, naming `server`.
    """
    choice = reply.choices[0]
    tokens_in, _ = _usage(reply, server)
    text = encodable(choice.message.content or "")
    entries = _entries(choice, server)
    ids = list(choice.token_ids or ())
    if ids and len(ids) != len(entries):
        raise BackboneError(f"{server} lists {len(ids)} token ids but {len(entries)} log-probabilities")
    thoughts, listed = encodable(choice.message.thoughts), len(entries)
    if thoughts:
        start = _start_of_text([encodable(entry.token) for entry in entries], text, server)
        while start < len(entries) and not entries[start].token.strip():
            start += 1
        entries, ids = entries[start:], ids[start:]
    thought_tokens = listed - len(entries)
    finish = finish_of(reply, server, limit)
    if finish == "stop" and entries and _END.fullmatch(entries[-1].token):
        entries, ids = entries[:-1], ids[:-1]
    written = Generation(
        text=text,
        token_ids=tuple(ids),
        logprobs=tuple(min(0.0, float(entry.logprob)) for entry in entries),
        finish=finish,
        tokens_in=tokens_in,
        tokens=tuple(encodable(entry.token) for entry in entries),
        thoughts=thoughts,
        thought_tokens=thought_tokens,
    )
    return without_thoughts(written)


def _start_of_text(tokens: Sequence[str], text: str, server: str) -> int:
    """The first token of a text whose thoughts the server sets apart. It lists all tokens, whatever ends the
    thoughts, or those of the text only. Raises `BackboneError` if the text is not found."""
    ends = [place for place, token in enumerate(tokens) if token.strip() == _THINK_END]
    said = text.strip()
    if not said:
        # Without an end marker, the token budget ran out during the thoughts: there is no reply.
        return ends[-1] + 1 if ends else len(tokens)
    last = len(tokens)
    while last and _END.fullmatch(tokens[last - 1].strip()):
        last -= 1
    # Servers change white space, and a character of several tokens is in none of them.
    shown = [
        (place, letter)
        for place, token in enumerate(tokens[:last])
        for letter in token
        if not letter.isspace() and letter != "\ufffd"
    ]
    known = {letter for _, letter in shown}
    has_parts = any("\ufffd" in token for token in tokens)
    wanted = [letter for letter in said if not letter.isspace() and (letter in known or not has_parts)]
    if said[0] in known and [letter for _, letter in shown[-len(wanted) :]] == wanted:
        return shown[-len(wanted)][0]
    if ends:
        return ends[-1] + 1
    if "".join(tokens).strip().startswith(said):
        return 0
    raise BackboneError(f"{server} {UNPLACED}")


def prompt_tokens(reply: Completion, server: str) -> int:
    """Prompt tokens as the server counted them, visual ones included."""
    return _usage(reply, server)[0]


def _word(token: str) -> str:
    """What a reader sees of a token."""
    return unicodedata.normalize("NFKC", visible(token)).strip()


def _probability(logprob: float) -> float:
    return math.exp(min(0.0, logprob))


def _entries(choice: Choice, server: str) -> list[Token]:
    """The listed log-probabilities of each token of the reply; empty only for an empty reply."""
    listed = choice.logprobs.content if choice.logprobs is not None else None
    if listed is None or (not listed and choice.message.content):
        raise BackboneError(f"{server} {NO_LOGPROBS}")
    for entry in listed:
        numbers = [entry.logprob, *(top.logprob for top in entry.top_logprobs or ())]
        if not all(number <= _ROUNDING for number in numbers):  # also catches NaN
            raise BackboneError(
                f"{server} lists a log-probability that is not 0 or less, at token {entry.token!r}"
            )
        if re.fullmatch(r"token_id:\d+", entry.token):
            raise BackboneError(
                f"{server} returns tokens as ids; start it without --return-tokens-as-token-ids"
            )
    return list(listed)


def _usage(reply: Completion, server: str) -> tuple[int, int]:
    if reply.usage is None:
        raise BackboneError(f"{server} does not report token counts ('usage' is missing)")
    return reply.usage.prompt_tokens, reply.usage.completion_tokens
