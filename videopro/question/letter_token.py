"""The confidence of a letter that stands in a written reply: that of the letter's own token."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from videopro.question.answer_extraction import extract_letter
from videopro.question.thoughts import visible

if TYPE_CHECKING:
    from videopro.question.question import Question


def letter_confidence(
    tokens: Sequence[str], logprobs: Sequence[float], letter: str, question: Question
) -> float:
    """Eq. 2 of the letter that a reply was read as, in 0..1.

    The letter is one token of the reply, so L is 1 and the confidence is that token's probability. A reply
    without the letter (it quotes the option's text) has Eq. 2 over all its tokens. `tokens` are the texts of
    the reply's tokens, `logprobs` their natural log-probabilities. 0.0 for an empty reply.
    """
    index = letter_token(tokens, letter, question)
    chosen = logprobs if index is None else [logprobs[index]]
    return math.exp(min(0.0, math.fsum(chosen) / len(chosen))) if chosen else 0.0


def letter_token(tokens: Sequence[str], letter: str, question: Question) -> int | None:
    """The place of the token with which `tokens` settled on `letter`; None if the letter does not stand in
    them as a word of its own.

    A reply may name the letter several times, and "A" and "I" are words too: "A man sits, so (A). A is right"
    names it four times. Without the deciding one, the text before it is not read as this letter yet.
    """
    texts = [visible(unicodedata.normalize("NFKC", token)) for token in tokens]
    text = "".join(texts)
    ends = list(accumulate(map(len, texts)))
    # Capitals first: a small letter of a word list counts only where the reply has no capital.
    offsets = list(_offsets(text, letter)) or list(_offsets(text, letter.lower()))
    # From the end, because a model weighs options before it settles on one.
    for offset in reversed(offsets):
        if offset == offsets[0] or extract_letter(text[:offset], question) != letter:
            return bisect_right(ends, offset)
    return None


def _offsets(text: str, letter: str) -> Iterator[int]:
    """Where `letter` stands alone. Script without spaces around it, as in "选B项", does not join it."""
    for match in re.finditer(rf"(?<![A-Za-z0-9]){letter}(?![A-Za-z0-9])", text):
        yield match.start()
