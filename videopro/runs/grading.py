"""Parsing a judge's replies, robustly and like the official code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from videopro.benchmarks import JudgeGrade, JudgePrompt
from videopro.question import said, written_result
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
# A separate line: prompts end with "Your response:".
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
    """The values of the grade fields of objects in JSON; None for a value that is not a whole number."""
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
    """The separate grades in a text; only the ones called final, if there are any."""
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
    """The number in a match; None if it is on another scale."""
    scale = match["slash"] or match["of"]
    return int(match["number"]) if scale in (None, str(high)) else None


def shown_answer(reply: str, judge: JudgePrompt) -> str:
    """The answer to show the judge: the reply, or for CG-Bench the "result" of its JSON block."""
    if judge.style != "cgbench":
        return reply
    result = written_result(reply)
    return reply if result is None else str(result)


def needs_look(reply: str, judge: JudgePrompt) -> bool:
    """Whether the judge must look at the clue after this first reply, by either parser."""
    if judge.unsure is None:
        return False
    official = read_cg_bench(reply, "012")
    return read_grade(reply, judge) == judge.unsure or official not in (None, 0, 1)


def grade_of(line: Mapping[str, Any], judge: JudgePrompt) -> JudgeGrade:
    """The grades of a line of grades.jsonl: the judge's reply "raw", and "look" if it was asked twice. A
    reply cut off at a token limit has no grade."""
    if line.get("cut_at") is not None:
        return JudgeGrade(None, None)
    raw, look = line["raw"], line.get("look")
    robust = read_grade(raw, judge)
    if judge.style != "cgbench":
        return JudgeGrade(robust, read_official(raw))
    official = read_cg_bench(raw, "012")
    if robust == judge.unsure:
        robust = None if look is None else read_grade(look, judge, high=1)
    if official not in (None, 0, 1):
        official = None if look is None else read_cg_bench(look, "01")
    # Whatever else a second reply says is counted, and is not right.
    return JudgeGrade(robust, None if official is None else int(official == 1))


def why_ungraded(line: Mapping[str, Any], judge: JudgePrompt) -> str:
    """A short reason why a line has no grade; empty if it has one."""
    if line.get("error"):
        return "the request failed"
    if line.get("cut_at") is not None:
        return f"the reply was cut off at {line['cut_at']} tokens"
    if grade_of(line, judge).robust is not None:
        return ""
    reply = line.get("look", line["raw"])
    return "the reply has no grade on the scale" if reply.strip() else "the reply is empty"


def read_grade(reply: str, judge: JudgePrompt, *, high: int | None = None) -> int | None:
    """The grade in a judge's reply; None for none or several. `high`: the end of the scale, if it differs
    from the judge's."""
    return read_verdict(reply, judge.low, judge.high if high is None else high)


def read_official(reply: str) -> int | None:
    """The grade as VLMEvalKit parses it (MMBenchVideo.evaluate, commit 401916c): a reply that Python reads
    as a whole number, signed or not, and nothing else. Numbers of more than 18 digits are rejected, as they
    could not be averaged."""
    match = re.fullmatch(r"\s*([+-]?(?:0+|[1-9]\d{0,17}))\s*", reply, re.ASCII)
    return int(match[1]) if match else None


def read_cg_bench(reply: str, digits: str) -> Any:
    """What run/utils.py (post_process, commit 6677fe3) of CG-Bench/CG-Bench reads: the "result" of the first
    ```json block, of any type, else the first of the `digits` anywhere; None if there is neither."""
    result = written_result(reply)
    if result is not None:
        return result
    digit = re.search(f"[{digits}]", reply)
    return int(digit[0]) if digit else None
