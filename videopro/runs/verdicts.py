"""The grade in a judge's reply: one strict form, so that a number in a sentence is no grade.

A verdict is a whole number on the scale that stands for itself: alone in the reply or in a line, after a word
for it ("Grade: 3", "I give it a 2"), or in a field ({"score": 3}, [[3]]); the scale's end may follow ("3/3").
Thoughts are left out. Verdicts must agree, unless one is called final.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from videopro.question import said
from videopro.storage import InvalidJson, parse_json

_NOUN = r"(?:grade|rating|score|mark|verdict|assessment|evaluation|judge?ment)"
_NUMBER = r"\+?(?P<number>\d{1,18})(?:\.0+)?"
# Of what a number may be: 3/3, 3 out of 3.
_OF = r"(?:\s*/\s*(?P<slash>\d+)|\s+(?:out\s+of|of)\s+(?P<of>\d+)|\s+points?\b)?"
# What makes a number part of something else: a decimal, a range, a choice, a time, a thing that is counted.
_NO_MORE = (
    r"(?![\w/%]|[.,:]\d|\s*\?|(?:\s*\([^()\n]{0,80}\))?\s*(?:-|–|—|/|to|vs\.?)\s*\d|\.?[ \t]+\+?\d"
    r"|[\s.,;:(–—-]*(?:\b(?:or|and|no|wait|actually|sorry|maybe|perhaps|possibly)\b[\s,]*)+\d"
    r"|[.\s]*,\s*\d+\s*\.|\s*\([^()\n]*\)\s*(?:,|or|and)\s*\d"
    r"|[ \t]+(?!because|since|as\b|on\b|for\b|which|and\b|out\s|of\s|points?\b)[a-z])"
)
_LABELLED = re.compile(
    rf"(?<!\w)(?P<final>final\s+|overall\s+)?{_NOUN}\s*(?:\([^()]*\)\s*)?"
    rf"(?:of|is|would\s+be|should\s+be|[:=-])\s*(?:an?\s+)?{_NUMBER}{_OF}{_NO_MORE}",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"(?<!\w)(?:give|assign|rate|grade|score|deserves?)\s+"
    r"(?:(?:it|this|that|(?:the|this)\s+(?:candidate\s+|predicted\s+)?(?:answer|response|prediction))\s+)?"
    rf"(?:(?:an?|as|with|at)\s+)*(?:{_NOUN}\s+(?:of\s+)?)?{_NUMBER}{_OF}{_NO_MORE}",
    re.IGNORECASE,
)
# A line of its own: prompts end with "Your response:".
_ANSWERED = re.compile(
    rf"(?:(?:my|your|the|final)\s+)?(?:response|answer|result)\s*(?:is\s*|[:=]\s*){_NUMBER}{_OF}\s*[.!]?",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"{_NUMBER}{_OF}\s*[.!]?")
# "3: the same", "3 - the same", "3 (correct)", in a reply whose other lines begin with no number.
_FIRST = re.compile(rf"{_NUMBER}{_OF}{_NO_MORE}(?=\s*[:;–—(]\s*[^\d\s]|\s+-\s+[^\d\s]|[.,]\s+[^\d\s])")
_MARKUP = re.compile(r"[*`_#>\"“”$]|\\boxed|^[ \t]*[-•][ \t]+(?=\D)", re.MULTILINE)
_BRACKETS = re.compile(r"(?<![\[({])[\[({]{1,3}[ \t]*(\+?\d+(?:[ \t]*/[ \t]*\d+)?)[ \t]*[\])}]{1,3}\.?")
# The scale itself, as in "0 (wrong) to 3 (right): 1".
_MEANING = r"(?:\s*\([^()\n]{0,80}\))?"
_SCALE = rf"(?<![\d.])%d{_MEANING}\s*(?:to|-|–)\s*%d(?![\d.]){_MEANING}\s*:?"
_DENIED = re.compile(
    r"(?:(?:\b(?:not|never|cannot|nobody|some|others|hesitate|wrong|was|rather)|n['’]t)(?:[ \t]+[\w'’]+){0,3}"
    r"|(?:^|[.\n])[ \t]*to|\b(?:if|unless)\b[^.!?;\n]*)[ \t]*$",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"\{[^{}]*\}")
_FIELDS = re.compile(rf"(?:final[_ ]|overall[_ ])?(?:{_NOUN}|result|response|answer)", re.IGNORECASE)


def read_verdict(reply: str, low: int, high: int) -> int | None:
    """The grade from `low` to `high` in a judge's reply; None if it has none, or several.

    >>> read_verdict("<think>2 or 3?</think>The grade is 3/3.", 0, 3)
    3
    """
    text = said(reply)
    grades = set(_fields(text))
    if not grades:
        text = _BRACKETS.sub(r" \1. ", _MARKUP.sub(" ", text))
        grades = _written(re.sub(_SCALE % (low, high), "\n", text, flags=re.IGNORECASE), high)
    if len(grades) != 1:
        return None
    (grade,) = grades
    return grade if grade is not None and low <= grade <= high else None


def _fields(text: str) -> Iterator[int | None]:
    """The values of the grade fields of objects in JSON; None for one that is no whole number."""
    for body in _OBJECT.findall(text):
        try:
            fields = parse_json(body)
        except InvalidJson:
            continue
        for name, value in fields.items() if isinstance(fields, dict) else ():
            if _FIELDS.fullmatch(str(name)):
                yield _whole_number(value)


def _whole_number(value: object) -> int | None:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*\+?(\d{1,18})(?:\.0+)?\s*", value)):
        return int(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)


def _written(text: str, high: int) -> set[int | None]:
    """The grades that stand for themselves in a text; those that are called final, if there are any."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    alone = {_of(match, high) for line in lines if (match := _ALONE.fullmatch(line))}
    labelled, assigned = (
        [match for match in form.finditer(text) if not _is_denied(text, match.start())]
        for form in (_LABELLED, _ASSIGNED)
    )
    final = [_of(match, high) for match in labelled if match["final"]]
    if final:
        return {final[-1]}
    grades = alone | {_of(match, high) for match in (*labelled, *assigned)}
    # From the surest form to the least sure one: a bare number may be a part of the explanation.
    if not grades:
        grades = {_of(match, high) for line in lines if (match := _ANSWERED.fullmatch(line))}
    if not grades and lines and (match := _FIRST.match(lines[0])):
        numbered = sum(line[:1].isdigit() for line in lines)
        grades = {_of(match, high)} if numbered == 1 else set()
    return grades


def _is_denied(text: str, start: int) -> bool:
    """Whether the words before a verdict deny or suppose it: "I would not give 3"."""
    return _DENIED.search(text, max(0, start - 200), start) is not None


def _of(match: re.Match[str], high: int) -> int | None:
    """The number of a match; None if it is of another scale."""
    scale = match["slash"] or match["of"]
    return int(match["number"]) if scale in (None, str(high)) else None
