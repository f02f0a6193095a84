"""Extracting an option's letter from a model's reply, whatever the reply's form.

A reply is read as a careful person would read it. A verdict in a marked place (a box, an <answer> tag, a JSON
field, "final answer: ...") counts first; then verdicts in sentences ("the answer is C", "so it is B") and the
letter that the reply opens or closes with; then an option that a short reply names in a sentence ("The car is
blue."); last what the model itself calls a guess ("maybe B"). Verdicts of the same rank must agree: two letters,
or a letter with another option's text, make the reply unreadable, unless the model retracts the earlier verdict
("wait, ..."). An unreadable reply is None, never a guess.

The extractors of published benchmarks, with their faults, are in `videopro.question.official_extractors`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from videopro.question import answer_phrases as phrases
from videopro.question.answer_languages import FOREIGN_VERDICTS, LETTER_AND_NOUN
from videopro.question.answer_lists import without_list
from videopro.question.answer_phrases import CLOSE, ENDS, OPEN
from videopro.question.answer_wrappers import answer_tags, boxes, final_message, objects, plain
from videopro.question.named_options import by_label, by_text, is_text, named_option, yes_or_no

if TYPE_CHECKING:
    from videopro.question.question import Question

# Longer replies come from a model that never stops; a million verdicts would take too long.
_LONGEST = 250_000
_NEAR = 400  # characters around a letter that affect its reading

_BARE = re.compile(
    rf"^{OPEN}(?:(?i:option|choice|letter)\s*)?{OPEN}(?P<letter>[A-Za-z]){CLOSE}{LETTER_AND_NOUN}"
    rf"[\s.,:;!?。、]*{CLOSE}$"
)
_LEADING = re.compile(
    rf"""^{OPEN}(?:
    # Option B:
    (?i:(?:option|choice|letter)\s+){OPEN}(?P<named>[A-Z]){ENDS}(?=\s*(?:$|[^\w\s]|because|since))
    # B. B) B - B (
    |(?P<letter>[A-Z])(?:{CLOSE}\s*[.):\]](?![A-Za-z0-9])|{CLOSE}\s+[-–—(]|\)|{CLOSE}\s*(?:[–—]|-\s))
    # B, ... B because ... B rather than ...
    |(?P<comma>[A-HJ-Z]){CLOSE}(?:,|;|!|\s+(?:because|since|as(?!\s+well)|rather\s+than|over|instead\s+of
        |(?:and\s+|but\s+)?not|for\s+sure)\b)
    |(?P<small>[a-z])\)  # b) ...
    |(?P<tight>[A-Z])[.:、]|(?P<equal>[A-Z])\s*=|(?P<initial>[a-z])[.:]  # B.blue: only with the own text
    )\s*(?P<tail>[^\n]*)""",
    re.VERBOSE,
)
_ONLY_WITH_TEXT = ("tight", "equal", "initial")
_INLINE_LABEL = re.compile(r"(?<!\bis\s)(?<![A-Za-z0-9_(\[])[(\[]?([A-Z])[.):\]]+\s")
_LAST_WORD = re.compile(rf"(?:^|[.!?:]['\"”’)]*\s+|\n\s*){OPEN}(?P<letter>[A-Z]){CLOSE}[.!]?{CLOSE}\s*$")
# "Given the smoke, C.", "... -> C", "..., option C", "The fish is red (C)."
_ENDING = re.compile(
    rf"(?:[,;:→⇒]|=>|->|\b(?:[Oo]ption|[Cc]hoice))\s*{OPEN}(?P<letter>[A-Z]){CLOSE}[.!]?\s*$"
    r"|\((?P<closed>[A-Z])\)[.!]?\s*$"
)
_TEXT_THEN_LETTER = re.compile(r"^(?P<text>.+?)\s*[-,:=/;→.(–—]+\s*\(?(?P<letter>[A-Za-z])[).]{0,2}$")
_ONLY_LETTERS = re.compile(r"(?:[A-Z](?:[.,;:)/\s]+|$)){3,}")
_NAMED_AFTER = re.compile(r"[\s,]*\((?:(?i:option|choice)\s+)?(?P<letter>[A-Z])\)\s*$")


class _Contradiction(Exception):
    """The reply contradicts itself at the deciding rank."""


class _Verdict(NamedTuple):
    letter: str
    start: int
    end: int


def extract_letter(reply: str, question: Question) -> str | None:
    """The letter of the option that `reply` chooses, or None if it chooses none of this question's options.

    Reads letters in any form (B, (b), **B**, B. text, full-width, boxed, tagged, JSON), verdicts in sentences
    of English and of some twenty other languages, and options named by their text. Text inside <think> is
    ignored; a reply that ends inside it has no answer, nor has a reply of more than 250,000 characters. Never
    raises.
    """
    if len(reply) > _LONGEST:
        return None
    text = unicodedata.normalize("NFKC", final_message(reply))
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    if not text:
        return None
    try:
        letter = _common_letter(_marked(text, question)) or _prose(text, question)
    except _Contradiction:
        return None
    return letter if letter in question.letters else None


def _marked(text: str, question: Question) -> Iterator[str | None]:
    """The letter in each marked place: boxes, JSON fields, <answer> tags."""
    yield from _boxes_and_objects(text, question)
    for body in answer_tags(text):
        yield _common_letter(_boxes_and_objects(body, question)) or _prose(body, question)


def _boxes_and_objects(text: str, question: Question) -> Iterator[str | None]:
    for body in (*boxes(text), *objects(text)):
        yield _prose(body, question)


def _common_letter(letters: Iterator[str | None]) -> str | None:
    """The letter on which all marked places agree; None if there are none. Raises _Contradiction
    otherwise."""
    first = next(letters, "")
    if first == "":
        return None
    if first is None or any(letter != first for letter in letters):
        raise _Contradiction
    return first


def _prose(text: str, question: Question) -> str | None:
    """Read text without marked places."""
    if match := _BARE.match(text.strip()):
        return match["letter"].upper()
    text = plain(text)
    if match := _BARE.match(text):
        return match["letter"].upper()
    if (whole := by_text(text, question)) is not None:
        return whole
    if _ONLY_LETTERS.fullmatch(text) and len(set(re.findall("[A-Z]", text))) > 1:
        raise _Contradiction
    listed, rest = without_list(text, question)
    final = [verdict for pattern in phrases.FINAL for verdict in _verdicts(pattern, rest, question)]
    if final:
        return _agreed(final, rest)
    stated = [
        verdict
        for pattern in (*phrases.VERDICTS, *FOREIGN_VERDICTS, *phrases.CONTRASTS)
        for verdict in _verdicts(pattern, rest, question, denials=pattern not in phrases.CONTRASTS)
    ]
    stated += _option_text_verdicts(rest, question) + _first_and_last(rest, question)
    named = yes_or_no(rest, question) or named_option(rest, question)
    said = {*listed, *([_agreed(stated, rest)] if stated else []), *([named] if named else [])}
    if len(said) > 1:
        raise _Contradiction
    if said:
        return said.pop()
    guesses = [
        verdict
        for pattern in phrases.GUESSES
        for verdict in _verdicts(pattern, rest, question)
        if not phrases.GOES_ON.search(rest, verdict.end)
    ]
    return _agreed(guesses, rest) if guesses else None


def _verdicts(
    pattern: re.Pattern[str], text: str, question: Question, denials: bool = True
) -> Iterator[_Verdict]:
    for match in pattern.finditer(text):
        if denials and _taken_back(text, match):
            continue
        letter = match["letter"].upper()
        tail = text[match.end("letter") : match.end() + _NEAR]
        if (more := phrases.MORE.match(tail)) and more["letter"] != letter:
            raise _Contradiction
        _check_tail(letter, tail, question)
        # "The answer is C major": an option whose text begins like a letter.
        whole = by_text(_sentence(text[match.start("letter") : match.end() + _NEAR]), question)
        yield _Verdict(whole or letter, match.start(), match.end())


def _taken_back(text: str, match: re.Match[str]) -> bool:
    """Whether the clause of the verdict denies, questions or supposes it."""
    before = text[max(0, match.start() - _NEAR) : match.start()]
    starts = [found.end() for found in phrases.CLAUSE_START.finditer(before)]
    clause = before[starts[-1] if starts else 0 :] + text[match.start() : match.start("letter")]
    after = text[match.end("letter") : match.end("letter") + _NEAR]
    return bool(
        re.match(rf"{CLOSE}\s*\?", after)
        or phrases.CONDITION_AFTER.match(after)
        or phrases.DENIED_AFTER.match(after)
        or phrases.CONDITION.search(before)
        or phrases.NEGATED.search(phrases.NO_DOUBT.sub("", clause))
    )


def _option_text_verdicts(text: str, question: Question) -> list[_Verdict]:
    """Verdicts that give an option's text instead of its letter: "The answer is red"."""
    verdicts = []
    for match in phrases.OPTION_TEXT_VERDICT.finditer(text):
        sentence = _sentence(match["text"])
        named, letter = _NAMED_AFTER.search(sentence), None
        for part in (sentence, re.split(r",|\b(?:because|since|as)\b", match["text"])[0]):
            part = _NAMED_AFTER.sub("", part)
            letter = letter or by_text(part, question) or by_label(part, question)
        if letter and named and named["letter"] != letter:
            raise _Contradiction
        before = text[max(0, match.start() - _NEAR) : match.start()].split("\n")[-1]
        if letter and not phrases.NEGATED.search(before):
            verdicts.append(_Verdict(letter, match.start(), match.end()))
    return verdicts


def _first_and_last(text: str, question: Question) -> list[_Verdict]:
    """Verdicts from the letter (or option) that opens the text, and from a lone letter that ends it."""
    first_line = text.split("\n", 1)[0].strip()
    found, whole = _first(text, first_line, question)
    if not whole and (last := _last(text, question)):
        found.append(last)
    return found


def _first(text: str, first_line: str, question: Question) -> tuple[list[_Verdict], bool]:
    """The verdict that opens the text, if any, and whether the text is nothing else."""
    if match := _BARE.match(first_line):
        return [_Verdict(match["letter"].upper(), 0, len(first_line))], False
    if letter := by_text(first_line, question) or by_label(first_line, question):
        return [_Verdict(letter, 0, len(first_line))], False
    if (match := _TEXT_THEN_LETTER.match(text[:_NEAR])) and by_text(match["text"], question):
        if by_text(match["text"], question) != match["letter"].upper():
            raise _Contradiction
        return [_Verdict(match["letter"].upper(), 0, len(text))], True
    if not (match := _LEADING.match(text)):
        return [], False
    form = next(name for name, letter in match.groupdict().items() if letter and name != "tail")
    letter = match[form].upper()
    own = letter in question.letters and is_text(match["tail"], question.choice(letter))
    # Labels A, B, ... in one line are a list of the options, whose first letter is not a verdict.
    listed = letter == "A" and "B" in _INLINE_LABEL.findall(first_line)
    more = phrases.MORE.match(text, match.end(form))
    if listed or (more and more["letter"] != letter) or (not own and form in _ONLY_WITH_TEXT):
        return [], False
    _check_tail(letter, match["tail"], question)
    # The option's own text may end like a lone letter.
    return [_Verdict(letter, 0, match.start("tail"))], own and match.end("tail") == len(text)


def _last(text: str, question: Question) -> _Verdict | None:
    """The verdict of a letter that ends the text."""
    start = max(0, len(text) - _NEAR)
    if match := _LAST_WORD.search(text, start):
        before = re.split(r"(?<=[.!?])\s|\n", text[start : match.start("letter")].rstrip(" \n([{\"'"))[-1]
        if phrases.ANNOUNCED.search(before):
            return None
        return _Verdict(match["letter"], match.start("letter"), match.end())
    if not (match := _ENDING.search(text, start)):
        return None
    form = "letter" if match["letter"] else "closed"
    sentence = re.split(r"(?<=[.!?])\s|\n|\b(?:but|however)\b", text[start : match.start(form)])[-1]
    other = {found for found in phrases.LETTER_MENTION.findall(sentence) if found != match[form]}
    if (
        other
        or phrases.ANNOUNCED.search(sentence)
        or phrases.CONDITION.search(sentence)
        or phrases.NEGATED.search(phrases.NO_DOUBT.sub("", re.split(r"[,;:]\s", sentence + " ")[-1]))
        or re.search(r"(?i)\b(?:choose|decide|select|pick)\b", sentence)
    ):
        return None
    return _Verdict(match[form], match.start(form), match.end())


def _agreed(verdicts: list[_Verdict], text: str) -> str:
    """The letter on which the verdicts agree, or the last one if the model says that it corrects itself."""
    verdicts = sorted(verdicts, key=lambda verdict: verdict.end)
    last = verdicts[-1].letter
    others = [verdict for verdict in verdicts if verdict.letter != last]
    if others and not phrases.CORRECTION.search(text, others[-1].start, verdicts[-1].end):
        raise _Contradiction
    return last


def _check_tail(letter: str, tail: str, question: Question) -> None:
    """Raise _Contradiction for a letter that is followed by another option's text or by another letter."""
    tail = re.sub(rf"^{CLOSE}\s*[.):,\-–—=]*\s*", "", tail)
    for part in (tail.split("\n")[0], _sentence(tail)):
        fits = [
            own
            for own, choice in zip(question.letters, question.choices, strict=True)
            if is_text(part, choice)
        ]
        if letter in fits:
            return
        if fits:
            raise _Contradiction
    if (match := _BARE.match(_sentence(tail))) and match["letter"].isupper() and match["letter"] != letter:
        raise _Contradiction
    if (match := phrases.ONE_MORE.search(tail.split("\n")[0])) and match["letter"] != letter:
        raise _Contradiction


def _sentence(text: str) -> str:
    return re.split(r"[.!?。](?=\s|$)|\n", text.lstrip(), maxsplit=1)[0]
