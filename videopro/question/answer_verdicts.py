"""Verdicts: where a reply says which letter it chooses, in a sentence, at its beginning or at its end, and
whether it takes that back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from videopro.question import answer_phrases as phrases
from videopro.question.answer_phrases import CLOSE, ENDS, OPEN
from videopro.question.named_options import asks_what_is_not, by_bare_text, by_label, by_text, is_text

if TYPE_CHECKING:
    from videopro.question.question import Question

NEAR = 400
"""How many characters around a letter affect its reading."""

BARE = re.compile(
    rf"^{OPEN}(?:(?i:option|choice|letter)\s*)?{OPEN}(?P<letter>[A-Za-z]){CLOSE}{phrases.LETTER_AND_NOUN}"
    rf"[\s.,:;!?。、]*{CLOSE}$"
)
_NAMED_AFTER = re.compile(r"[\s,]*\((?:(?i:option|choice)\s+)?(?P<letter>[A-Z])\)\s*$")


_OTHER_BEFORE = re.compile(rf"\b([A-Z]){CLOSE}\s+(?:or|and)\s+{OPEN}$")
_QUOTED = re.compile(r"\"[^\"]{0,200}\"")
_LEADING = re.compile(
    rf"""^{OPEN}(?:
    # Option B:
    (?i:(?:option|choice|letter)\s+){OPEN}(?P<named>[A-Z]){ENDS}(?=\s*(?:$|[^\w\s]|because|since))
    # B. B) B - B (
    |(?P<letter>[A-Z])(?:{CLOSE}\s*[.):\]](?![A-Za-z0-9])|{CLOSE}\s+[-–—(](?!>)|\)|{CLOSE}\s*(?:[–—]|-\s))
    # B, ... B because ...
    |(?P<comma>[A-HJ-Z]){CLOSE}(?:,|;|!|\s+(?:because|since|as(?!\s+well)|for\s+sure)\b)
    |(?P<small>[a-z])\)  # b) ...
    |(?P<tight>[A-Z])[.:、]|(?P<equal>[A-Z])\s*=|(?P<initial>[a-z])[.:]  # B.blue: only with the own text
    )\s*(?P<tail>[^\n]*)""",
    re.VERBOSE,
)
# After a leading letter and its text: "B. No.", "B. blue - incorrect", "B. blue? C. green?".
_DROPPED = re.compile(
    r"(?i)^[\s.,:;!()\]–—-]*(?:\?|no(?=[.,!;)]|$)|(?:un|im)(?:likely|plausible|probable|possible)\b(?!\s+to)"
    r"|\d+\s*(?:/\s*\d|points?\b|stars?\b)|[0-4]?\d(?:\.\d+)?\s*%"
    r"|(?:but|however),?\s+(?:that|this|it|he|she|they)\b[^.!?]*(?:\b(?:no|not|never|cannot)\b|n['’]t)"
    rf"|or\s+(?:maybe|perhaps)|(?:is\s+)?{phrases.FALSE}\b|is\s+one\b"
    r"|(?:is\s+)?not\b(?!\s+(?:option\s+)?[(]?[a-z]\b)|(?:this|that)\s+(?:is\s+not|isn['’]t|does\s+n|doesn['’]t)"
    r"|it\s+is\s+not\s+(?:correct|right|true|supported|shown|seen)\b)"
)
_SEVERAL = re.compile(r"\?\s*[(\[]?[A-Z][.):\]]|(?:\band|,)\s*[(\[]?[A-Z][)\]]?\s+(?:is|shows|says|has)\b")
_ONLY_WITH_TEXT = ("tight", "equal", "initial")
_INLINE_LABEL = re.compile(r"(?<!\bis\s)(?<![A-Za-z0-9_(\[])[(\[]?([A-Za-z])[.):\]]+\s")
_LAST_WORD = re.compile(rf"(?:^|[.!?:]['\"”’)]*\s+|\n\s*){OPEN}(?P<letter>[A-Z]){CLOSE}[.!]?{CLOSE}\s*$")
# A label before a letter: one of several is no verdict, whatever it says.
_LABELLED = re.compile(rf"\w: {OPEN}([A-Z]){ENDS}")
_CHOSEN = re.compile(
    r"(?i)\b(?:best|winn\w+|in|new|supported|after\s+\w+|accept\w*|remain\w*|left|kept|keep|chosen|choose|pick|select\w*):$"
)
# "Given the smoke, C.", "... -> C", "..., option C", "The fish is red (C)."
_ENDING = re.compile(
    rf"(?:[,;:→⇒]|=>|->|\b(?:[Oo]ption|[Cc]hoice))\s*{OPEN}(?P<letter>[A-Z]){CLOSE}[.!]?\s*$"
    r"|\((?P<closed>[A-Z])\)[.!]?\s*$"
)
_TEXT_THEN_LETTER = re.compile(r"^(?P<text>.+?)\s*[-,:=/;→.(–—]+\s*\(?(?P<letter>[A-Za-z])[).]{0,2}$")


class Contradiction(Exception):
    """The reply contradicts itself at the deciding rank."""


def verdicts_of(pattern: re.Pattern[str], text: str, question: Question) -> Iterator[str]:
    """The letters of the verdicts that a pattern finds. Raises Contradiction for one next to another letter
    or before another option's text."""
    for match in pattern.finditer(text):
        if _taken_back(text, match):
            continue
        letter = match["letter"].upper()
        tail = text[match.end("letter") : match.end() + NEAR]
        before = _OTHER_BEFORE.search(text, max(0, match.start() - 20), match.start("letter"))
        if any(other and other[1] != letter for other in (before, phrases.MORE.match(tail))):
            raise Contradiction
        check_tail(letter, tail, question)
        # "The answer is C major": an option whose text begins like a letter.
        named = by_text(_sentence(text[match.start("letter") : match.end() + NEAR]), question)
        yield named or letter


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


def option_text_verdicts(text: str, question: Question) -> Iterator[str]:
    """The letters of verdicts that give an option's text instead: "The answer is red"."""
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
            yield letter


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


def first_and_last(text: str, question: Question) -> list[str]:
    """The letter (or option) that opens the text, and a lone letter that ends it."""
    first_line = text.split("\n", 1)[0].strip()
    first, is_all = _first(text, first_line, question)
    # The text of the option itself may end in a lone letter, as "vitamin C".
    last = None if is_all else _last(text, question)
    return [letter for letter in (first, last) if letter]


def _first(text: str, first_line: str, question: Question) -> tuple[str | None, bool]:
    """The verdict that opens the text, if any, and whether the text is nothing else."""
    if match := BARE.match(first_line):
        return match["letter"].upper(), False
    if letter := by_text(first_line, question) or by_label(first_line, question):
        return letter, False
    if (match := _TEXT_THEN_LETTER.match(text[:NEAR])) and by_text(match["text"], question):
        if by_text(match["text"], question) != match["letter"].upper():
            raise Contradiction
        return match["letter"].upper(), True
    if not (match := _LEADING.match(text)):
        return None, False
    form = next(name for name, letter in match.groupdict().items() if letter and name != "tail")
    letter = match[form].upper()
    has_its_text = letter in question.letters and is_text(match["tail"], question.choice(letter))
    # Labels A, B, ... in one line are a list of the options, whose first letter is not a verdict.
    is_list = letter == "A" and {"B", "b"} & {*_INLINE_LABEL.findall(first_line)}
    more = phrases.MORE.match(text, match.end(form))
    if is_list or (more and more["letter"] != letter) or (not has_its_text and form in _ONLY_WITH_TEXT):
        return None, False
    if re.match(
        rf"{CLOSE},?\s+(?:if(?!\s+(?:i|we|you|any\w*)\b)\b|provided\b|then\s+\W?[A-Z]\b)",
        text[match.end(form) :],
    ):
        return None, False
    remark = match["tail"].lstrip(" .:)")
    if letter in question.letters and remark.casefold().startswith(
        question.choice(letter).strip().casefold()
    ):
        remark = remark[len(question.choice(letter).strip()) :]
    if not has_its_text and (
        (_DROPPED.match(remark) and not asks_what_is_not(question)) or _SEVERAL.search(match["tail"])
    ):
        return None, False
    check_tail(letter, match["tail"], question)
    # The option's own text may end like a lone letter.
    return letter, has_its_text and match.end("tail") == len(text)


def _last(text: str, question: Question) -> str | None:
    """The lone letter that ends the text as a verdict."""
    start = max(0, len(text) - NEAR)
    if match := _LAST_WORD.search(text, start):
        before = re.split(r"(?<=[.!?])\s|\n", text[start : match.start("letter")].rstrip(" \n([{\"'"))[-1]
        labels = _LABELLED.findall(text, 0, match.start())
        denied = not re.search(r"\bnot\s+[A-Z]\b", before) and phrases.NEGATED.search(before)
        several = {*labels} - {match["letter"]} and not _CHOSEN.search(before)
        named = before.endswith(":") and (denied or several or phrases.SAID_BEFORE.search(before))
        if named or phrases.ANNOUNCED.search(before):
            return None
        return match["letter"]
    if not (match := _ENDING.search(text, start)):
        return None
    form = "letter" if match["letter"] else "closed"
    sentence = re.split(r"(?<=[.!?])\s|\n|\b(?:but|however)\b", text[start : match.start(form)])[-1]
    other = {mention for mention in phrases.LETTER_MENTION.findall(sentence) if mention != match[form]}
    named = phrases.NAME_BEFORE.search(sentence) or phrases.SAID_BEFORE.search(sentence)
    if (
        other
        or named
        or phrases.ANNOUNCED.search(sentence)
        or phrases.CONDITION.search(sentence)
        or phrases.NEGATED.search(phrases.NO_DOUBT.sub("", re.split(r"[,;]\s", sentence)[-1]))
        or re.search(r"(?i)(?<!had to )(?<!must )\b(?:choose|decide|select|pick)\b", sentence)
    ):
        return None
    return match[form]
