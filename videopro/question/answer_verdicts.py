"""Verdicts: where a reply says which letter it chooses, and whether it takes that back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from videopro.question import answer_phrases as phrases
from videopro.question.answer_chinese import LETTER_AND_NOUN
from videopro.question.answer_phrases import CLOSE, OPEN
from videopro.question.named_options import by_bare_text, by_label, by_text, is_text

if TYPE_CHECKING:
    from videopro.question.question import Question

NEAR = 400
"""How many characters around a letter affect its reading."""

BARE = re.compile(
    rf"^{OPEN}(?:(?i:option|choice|letter)\s*)?{OPEN}(?P<letter>[A-Za-z]){CLOSE}{LETTER_AND_NOUN}"
    rf"[\s.,:;!?。、]*{CLOSE}$"
)
_NAMED_AFTER = re.compile(r"[\s,]*\((?:(?i:option|choice)\s+)?(?P<letter>[A-Z])\)\s*$")


_QUOTED = re.compile(r"\"[^\"]{0,200}\"")


class Contradiction(Exception):
    """The reply contradicts itself at the deciding rank."""


class Verdict(NamedTuple):
    letter: str
    start: int
    end: int


def verdicts_of(
    pattern: re.Pattern[str], text: str, question: Question, denials: bool = True
) -> Iterator[Verdict]:
    """The verdicts that a pattern finds. Without `denials`, the pattern itself covers what is denied.

    Raises Contradiction for a letter that is followed by another one, or by another option's text.
    """
    for match in pattern.finditer(text):
        if denials and _taken_back(text, match):
            continue
        letter = match["letter"].upper()
        if not denials:  # the pattern covers the other letter
            yield Verdict(letter, match.start(), match.end())
            continue
        tail = text[match.end("letter") : match.end() + NEAR]
        if (more := phrases.MORE.match(tail)) and more["letter"] != letter:
            raise Contradiction
        check_tail(letter, tail, question)
        # "The answer is C major": an option whose text begins like a letter.
        named = by_text(_sentence(text[match.start("letter") : match.end() + NEAR]), question)
        yield Verdict(named or letter, match.start(), match.end())


def _taken_back(text: str, match: re.Match[str]) -> bool:
    """Whether the clause of the verdict denies, questions or supposes it."""
    before = text[max(0, match.start() - NEAR) : match.start()]
    starts = [boundary.end() for boundary in phrases.CLAUSE_START.finditer(before)]
    clause = before[starts[-1] if starts else 0 :] + text[match.start() : match.start("letter")]
    after = text[match.end("letter") : match.end("letter") + NEAR]
    impression = phrases.WEAK.search(match[0]) and phrases.GOES_ON.search(
        text, match.end(), match.end() + NEAR
    )
    return bool(
        impression
        or phrases.NAME_BEFORE.search(text[max(0, match.start("letter") - 30) : match.start("letter")])
        or phrases.CONDITION_AFTER.match(text[match.end() : match.end() + NEAR])
        or re.match(rf"{CLOSE}\s*\?", after)
        or phrases.CONDITION_AFTER.match(after)
        or phrases.DENIED_AFTER.match(after)
        or phrases.CONDITION.search(before)
        or phrases.NEGATED.search(phrases.NO_DOUBT.sub("", _QUOTED.sub("", clause)))
    )


def option_text_verdicts(text: str, question: Question) -> list[Verdict]:
    """Verdicts that give an option's text instead of its letter: "The answer is red"."""
    verdicts = []
    for match in phrases.OPTION_TEXT_VERDICT.finditer(text):
        sentence = _sentence(match["text"])
        named, letter = _NAMED_AFTER.search(sentence), None
        for part in (sentence, re.split(r",|\b(?:because|since|as)\b", match["text"])[0]):
            part = _NAMED_AFTER.sub("", part)
            letter = letter or by_text(part, question) or by_label(part, question)
            if not part.lstrip().startswith("A "):  # which may be a letter before another option's text
                letter = letter or by_bare_text(part, question)
        if letter and named and named["letter"] != letter:
            raise Contradiction
        before = text[max(0, match.start() - NEAR) : match.start()].split("\n")[-1]
        if letter and not phrases.NEGATED.search(before):
            verdicts.append(Verdict(letter, match.start(), match.end()))
    return verdicts


def agreed(verdicts: list[Verdict], text: str) -> str:
    """The letter on which the verdicts agree, or the last one if the model says that it corrects itself."""
    verdicts = sorted(verdicts, key=lambda verdict: verdict.end)
    last = verdicts[-1].letter
    earlier = [verdict for verdict in verdicts if verdict.letter != last]
    if earlier and not phrases.CORRECTION.search(text, earlier[-1].start, verdicts[-1].end):
        raise Contradiction
    return last


def check_tail(letter: str, tail: str, question: Question) -> None:
    """Raise Contradiction for a letter that is followed by another option's text or by another letter."""
    tail = re.sub(rf"^{CLOSE}\s*[.):,\-–—=]*\s*", "", tail)
    # A whole line, for options with a full stop in them, and its first sentence.
    for part in (tail.split("\n")[0], _sentence(tail)):
        fits = [
            option_letter
            for option_letter, choice in zip(question.letters, question.choices, strict=True)
            if is_text(part, choice)
        ]
        if letter in fits:
            return
        if fits:
            raise Contradiction
    if (match := BARE.match(_sentence(tail))) and match["letter"].isupper() and match["letter"] != letter:
        raise Contradiction
    if (match := phrases.ONE_MORE.search(tail.split("\n")[0])) and match["letter"] != letter:
        raise Contradiction


def _sentence(text: str) -> str:
    return re.split(r"[.!?。](?=\s|$)|\n", text.lstrip(), maxsplit=1)[0]
