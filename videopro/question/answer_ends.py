"""The letter or option that opens a reply, and the lone letter that ends it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from videopro.question import answer_phrases as phrases
from videopro.question.answer_phrases import CLOSE, ENDS, OPEN
from videopro.question.answer_verdicts import BARE, NEAR, Contradiction, Verdict, check_tail
from videopro.question.named_options import asks_what_is_not, by_label, by_text, is_text

if TYPE_CHECKING:
    from videopro.question.question import Question

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
    r"(?i)^[\s.,:;!)\]–—-]*(?:\?|no(?=[.,!;]|$)|or\s+(?:maybe|perhaps)|(?:is\s+)?(?:wrong|incorrect|false)\b|is\s+one\b"
    r"|(?:is\s+)?not\b(?!\s+(?:option\s+)?[(]?[a-z]\b)|(?:this|that)\s+(?:is\s+not|isn['’]t|does\s+n|doesn['’]t)"
    r"|it\s+is\s+not\s+(?:correct|right|true|supported|shown|seen)\b)"
)
_SEVERAL = re.compile(r"\?\s*[(\[]?[A-Z][.):\]]|(?:\band|,)\s*[(\[]?[A-Z][)\]]?\s+(?:is|shows|says|has)\b")
_ONLY_WITH_TEXT = ("tight", "equal", "initial")
_INLINE_LABEL = re.compile(r"(?<!\bis\s)(?<![A-Za-z0-9_(\[])[(\[]?([A-Z])[.):\]]+\s")
_LAST_WORD = re.compile(rf"(?:^|[.!?:]['\"”’)]*\s+|\n\s*){OPEN}(?P<letter>[A-Z]){CLOSE}[.!]?{CLOSE}\s*$")
# "Given the smoke, C.", "... -> C", "..., option C", "The fish is red (C)."
_ENDING = re.compile(
    rf"(?:[,;:→⇒]|=>|->|\b(?:[Oo]ption|[Cc]hoice))\s*{OPEN}(?P<letter>[A-Z]){CLOSE}[.!]?\s*$"
    r"|\((?P<closed>[A-Z])\)[.!]?\s*$"
)
_TEXT_THEN_LETTER = re.compile(r"^(?P<text>.+?)\s*[-,:=/;→.(–—]+\s*\(?(?P<letter>[A-Za-z])[).]{0,2}$")


def first_and_last(text: str, question: Question) -> list[Verdict]:
    """Verdicts from the letter (or option) that opens the text, and from a lone letter that ends it."""
    first_line = text.split("\n", 1)[0].strip()
    verdicts, is_all = _first(text, first_line, question)
    # The text of the option itself may end in a lone letter, as "vitamin C".
    if not is_all and (last := _last(text, question)):
        verdicts.append(last)
    return verdicts


def _first(text: str, first_line: str, question: Question) -> tuple[list[Verdict], bool]:
    """The verdict that opens the text, if any, and whether the text is nothing else."""
    if match := BARE.match(first_line):
        return [Verdict(match["letter"].upper(), 0, len(first_line))], False
    if letter := by_text(first_line, question) or by_label(first_line, question):
        return [Verdict(letter, 0, len(first_line))], False
    if (match := _TEXT_THEN_LETTER.match(text[:NEAR])) and by_text(match["text"], question):
        if by_text(match["text"], question) != match["letter"].upper():
            raise Contradiction
        return [Verdict(match["letter"].upper(), 0, len(text))], True
    if not (match := _LEADING.match(text)):
        return [], False
    form = next(name for name, letter in match.groupdict().items() if letter and name != "tail")
    letter = match[form].upper()
    has_its_text = letter in question.letters and is_text(match["tail"], question.choice(letter))
    # Labels A, B, ... in one line are a list of the options, whose first letter is not a verdict.
    is_list = letter == "A" and "B" in _INLINE_LABEL.findall(first_line)
    more = phrases.MORE.match(text, match.end(form))
    if is_list or (more and more["letter"] != letter) or (not has_its_text and form in _ONLY_WITH_TEXT):
        return [], False
    remark = match["tail"].lstrip(" .:)")
    if letter in question.letters and remark.casefold().startswith(
        question.choice(letter).strip().casefold()
    ):
        remark = remark[len(question.choice(letter).strip()) :]
    if not has_its_text and (
        (_DROPPED.match(remark) and not asks_what_is_not(question)) or _SEVERAL.search(match["tail"])
    ):
        return [], False
    check_tail(letter, match["tail"], question)
    # The option's own text may end like a lone letter.
    return [Verdict(letter, 0, match.start("tail"))], has_its_text and match.end("tail") == len(text)


def _last(text: str, question: Question) -> Verdict | None:
    """The verdict of a letter that ends the text."""
    start = max(0, len(text) - NEAR)
    if match := _LAST_WORD.search(text, start):
        before = re.split(r"(?<=[.!?])\s|\n", text[start : match.start("letter")].rstrip(" \n([{\"'"))[-1]
        named = (
            before.endswith(":")
            and not re.search(r"\bnot\s+[A-Z]\b", before)
            and (phrases.NEGATED.search(before) or phrases.SAID_BEFORE.search(before))
        )
        if named or phrases.ANNOUNCED.search(before):
            return None
        return Verdict(match["letter"], match.start("letter"), match.end())
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
    return Verdict(match[form], match.start(form), match.end())
