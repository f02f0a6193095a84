"""Extracting an option's letter from a model's reply, whatever the reply's form.

A reply is read as a careful person would read it. A verdict in a marked place (a box, an <answer> tag, a JSON
field, "final answer: ...") counts first; then verdicts in sentences ("the answer is C", "so it is B"), the
letter that the reply opens or closes with, and an option that a short reply names in a sentence ("The car is
blue."); last what the model itself calls a guess ("maybe B"). Verdicts of the same rank must agree: two
letters, or a letter with another option's text, make the reply unreadable, unless the model retracts the
earlier verdict ("wait, ..."). An unreadable reply is None, never a guess.

The extractors of published benchmarks, with their faults, are in `videopro.question.official_extractors`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from videopro.question import answer_phrases as phrases
from videopro.question.answer_verdicts import (
    BARE,
    Contradiction,
    first_and_last,
    option_text_verdicts,
    verdicts_of,
)
from videopro.question.answer_weighing import settled, without_list
from videopro.question.answer_wrappers import answer_tags, boxes, objects, plain, said
from videopro.question.named_options import by_text, named_option, yes_or_no
from videopro.question.thoughts import visible

if TYPE_CHECKING:
    from videopro.question.question import Question

# Longer replies come from a model that never stops; a million verdicts would take too long.
_LONGEST = 250_000
# Stands for an option whose text no reply has (a character for private use).
_NO_TEXT = "\ue000"
_NEXT_TURN = re.compile(
    r"(?i)\n[\s#*_<>[-]*(?:(?:next|another|new)\s+)?(?:question|q|exercise|problem|instruction|user|human|问题?)"
    r"[\s#]*\d*[*_]*(?:\s*[:.)>\]]|(?=\n))|\n\d+[.)]\s+[^\n]+\?(?=\n)|\n[^\n]+\?(?=\n[(\[]?A[.):\]])"
    r"|\n(?:user|human|assistant)(?=\n|:)"
)
_ONLY_LETTERS = re.compile(r"(?:[A-Z](?:[.,;:)/\s]+|$)){3,}")


def extract_letter(reply: str, question: Question) -> str | None:
    """The letter of the option that `reply` chooses, or None if it chooses none of this question's options.

    Reads letters in any form (B, (b), **B**, B. text, full-width, boxed, tagged, JSON), verdicts in sentences
    of English and Chinese, and options named by their text in any language. Thoughts (`thoughts`) and
    characters that no reader sees are ignored; a reply that ends inside a thought has no answer, nor has a
    reply of more than 250,000 characters. A text that several options have is the first of these that agrees
    with the rest of the reply: each of them is as right as the others. Never raises.
    """
    if len(reply) > _LONGEST:
        return None
    text = "\n".join(" ".join(line.split()) for line in said(reply).splitlines() if line.strip())
    parts = [text]
    if turn := _NEXT_TURN.search(text):
        # A base model continues with another question, unless it repeats this one before it answers.
        parts = [text[: turn.start()], *([text] if " ".join(question.text.split()) in text else [])]
        if _NEXT_TURN.match(f"\n{text}"):
            return None  # a conversation
    letters = (_read(part, reading) for part in parts for reading in (question, *_variants(question)))
    return next((letter for letter in letters if letter is not None), None)


def _read(text: str, question: Question) -> str | None:
    try:
        letter = _common_letter(_marked(text, question)) or _prose(text, question)
    except Contradiction:
        return None
    # A letter beyond the options is not read as a near one: the reply did not choose.
    return letter if letter in question.letters else None


def _variants(question: Question) -> Iterator[Question]:
    """The question with each of several equal options in turn as the only one with its text; none if its
    options differ."""
    turns = [question.choices[:index].count(choice) for index, choice in enumerate(question.choices)]
    for turn in range(max(turns) + 1 if any(turns) else 0):
        choices = (
            choice if own == min(turn, question.choices.count(choice) - 1) else _NO_TEXT
            for own, choice in zip(turns, question.choices, strict=True)
        )
        yield replace(question, choices=tuple(choices))


def _marked(text: str, question: Question) -> Iterator[str | None]:
    """The letter in each marked place: boxes, JSON fields, <answer> tags."""
    yield from _boxes_and_objects(text, question)
    for body in answer_tags(text):
        yield _common_letter(_boxes_and_objects(body, question)) or _prose(body, question)


def _boxes_and_objects(text: str, question: Question) -> Iterator[str | None]:
    for body in (*boxes(text), *objects(text)):
        yield _prose(body, question)


def _common_letter(letters: Iterator[str | None]) -> str | None:
    """The letter on which all places agree; None if there are none. Raises Contradiction otherwise."""
    first = next(letters, "")
    if first == "":
        return None
    if first is None or any(letter != first for letter in letters):
        raise Contradiction
    return first


def _prose(text: str, question: Question) -> str | None:
    """Read text without marked places."""
    text = plain(text)
    if match := BARE.match(text):
        return match["letter"].upper()
    if (letter := by_text(text, question)) is not None:
        return letter
    if _ONLY_LETTERS.fullmatch(text) and len(set(re.findall("[A-Z]", text))) > 1:
        raise Contradiction
    if mention := phrases.LETTER_MENTION.search(text):
        # A "no" or "yes" of several is said of one option.
        is_listed = len(re.findall(r"(?i)\b(?:no|yes)\b", text)) > 1
        corrections = phrases.TAKEN_BACK.finditer(text, mention.start())
        ends = [match.end() for match in corrections if not (match["no"] and is_listed)]
        if ends and (letter := _prose(text[ends[-1] :], question)) is None:
            raise Contradiction
        if ends:
            return letter
    text = settled(text, question, lambda clause: _read(clause, question))
    marked, prose = without_list(text, question)
    # What is called final stands, whatever was weighed before it.
    if final := _found(phrases.FINAL, prose, question):
        return final
    stated = _common_letter(
        chain(
            *(verdicts_of(pattern, prose, question) for pattern in phrases.VERDICTS),
            (match["letter"] for pattern in phrases.CONTRASTS for match in pattern.finditer(prose)),
            option_text_verdicts(prose, question),
            first_and_last(prose, question),
        )
    )
    named = yes_or_no(prose, question) or named_option(prose, question)
    letters = {*marked, *filter(None, (stated, named))}
    if len(letters) > 1:
        raise Contradiction
    # A guess holds unless the model keeps looking.
    return letters.pop() if letters else _found(phrases.GUESSES, phrases.GOES_ON.split(prose)[-1], question)


def _found(patterns: Sequence[re.Pattern[str]], text: str, question: Question) -> str | None:
    return _common_letter(letter for pattern in patterns for letter in verdicts_of(pattern, text, question))


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
    """The place of the token with which `tokens` settled on `letter`; None if the letter is not a separate
    word in them.

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
