"""Reading parts of a video out of a reply that says when something happens."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from videopro.question.answer_wrappers import said

if TYPE_CHECKING:
    from videopro.question.question import Question

# What a reply says: a letter, intervals (start, end) in seconds, or None if it cannot be read.
Reading: TypeAlias = "str | Sequence[tuple[float, float]] | None"
# Reads a reply to a question.
Parser: TypeAlias = "Callable[[str, Question], Reading]"

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:[.,]\d+)?)"
_CLOCK = r"(?:\d{1,2}:)?\d{1,3}:\d{2}(?:[.,]\d+)?"
_H, _M, _S = (
    rf" ?{unit}(?![a-z])\.?" for unit in ("h(?:ou)?r?s?", "m(?:in(?:ute)?s?)?", "s(?:ec(?:ond)?s?)?")
)
_UNIT = rf"(?:{_H}|{_M}|{_S})?"
_AND = r",? ?(?:and )?"
# "1:05", "1 h 2 min", "1 minute and 5 seconds", "5.5 s", "5".
_TIME = (
    rf"(?:{_CLOCK}{_UNIT}|\d+{_H}{_AND}\d+{_M}(?:{_AND}{_NUMBER}{_S})?|\d+{_M}{_AND}{_NUMBER}{_S}"
    rf"|\d+{_M} {_NUMBER}(?! ?[hm])|{_NUMBER}{_UNIT})(?![\d:])"
)
_PAIR = re.compile(rf"[\[(] ?(?P<start>{_TIME}) ?[,;] ?(?P<end>{_TIME}) ?[\])]", re.IGNORECASE)
_TIME = rf"(?<![\d.,:]){_TIME}"
_ABOUT = r"(?:(?:the|a|about|around|approximately|roughly|seconds?|is|of|for|another) ?)"
_TO = (
    r" ?(?:-+>?|–|—|~|→|\bto\b|\b(?:un)?till?\b|\bthrough\b|\bup to\b|(?<=\w) and\b) ?"
    rf"{_ABOUT}{{0,4}}"
)
_START = r"\b(?:start|begin)[a-z]*\b[^\d\n]{0,40}"
_RANGE = re.compile(rf"(?P<start>{_TIME}){_TO}(?P<end>{_TIME})", re.IGNORECASE)
_LABELLED = re.compile(
    rf"{_START}(?P<start>{_TIME})[^\d]{{0,80}}?\b(?:end|finish|stop|conclude|until|till)[a-z]*\b"
    rf"[^\d\n]{{0,40}}(?P<end>{_TIME})",
    re.IGNORECASE,
)
_LASTING = re.compile(
    rf"(?:{_START}|\b(?:from|at|after) |^)(?P<start>{_TIME})(?:(?!{_TO}\d)[^\d]){{0,60}}?"
    rf"\b(?:for|last(?:s|ed|ing)?|duration|takes)\b[ :]{{0,2}}{_ABOUT}{{0,4}}(?P<length>{_TIME})",
    re.IGNORECASE,
)
_LASTING_FROM = re.compile(
    rf"\b(?:for|last(?:s|ed|ing)?|duration|takes)\b[ :]{{0,2}}{_ABOUT}{{0,4}}"
    rf"(?P<length>{_TIME})[^\d.\n;]{{0,20}}?{_START}(?P<start>{_TIME})",
    re.IGNORECASE,
)
_ANY_TIME = re.compile(_TIME, re.IGNORECASE)
_PARTS = re.compile(rf"({_NUMBER}) ?([hms])?", re.IGNORECASE)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}


def extract_intervals(reply: str, question: Question | None = None) -> tuple[tuple[float, float], ...]:
    """The intervals (start, end) in seconds that a reply names, in its order; empty if it names none.

    Reads "24.3 - 30.4 s", "12,3 - 15,0", "from 0:12 to 1:03", "1 min 5 s to 1 min 10 s", "5 to 10 minutes",
    "[3, 5.5]" and JSON pairs, "starts at 3 s and ends at 5 s", "begins at 3 s and lasts 2 s", and two times
    that stand alone. Thoughts are left out; an end before its start is swapped.

    >>> extract_intervals("The event happens in the 24.3 - 30.4 seconds.")
    ((24.3, 30.4),)
    >>> extract_intervals("It starts at 1:02 and lasts 7 s.")
    ((62.0, 69.0),)
    """
    # 5'10" is a clock time, "minute 1" is "1 minute", frames are no times,
    # and what is denied is none.
    text = re.sub(r"(\d)['′’](\d{2})(?!\d)", r"\1:\2", said(reply))
    text = re.sub(r"(?i)(?<!\d )\b(min(?:ute)?|hour)s? (\d+)", r"\2 \1", text)
    text = re.sub(r"(?i)\b(?:frame|shot|scene|chapter)s? \d+(?: ?(?:to|and|[-–]) ?(?:scene )?\d+)?", "", text)
    text = re.sub(rf"\bnot (?:from |between )?{_TIME}{_TO}{_TIME}", "", text, flags=re.IGNORECASE)
    text = re.sub(r"[ \t]+", " ", re.sub("[*\"'`“”]", "", text))
    # "1-2,5-6" are two ranges, "1,2-5,6" is one.
    text = re.sub(r"([-–—~] ?\d+),(?=\d+ ?[-–—~])", r"\1, ", text)
    # The most explicit form first: "starts at 3 and ends at 5-6 s" holds a range too.
    for form in (_LABELLED, _LASTING_FROM, _LASTING, _PAIR, _RANGE):
        if matches := list(form.finditer(text)):
            # A number of 400 digits is no time.
            found = dict.fromkeys(map(_interval, matches))
            return tuple(pair for pair in found if math.isfinite(pair[1]))
    times = _ANY_TIME.findall(text)
    # Of three lone times it is unclear which two belong together.
    lone = _ordered(*map(_seconds, times)) if len(times) == 2 else (math.inf, math.inf)
    return (lone,) if math.isfinite(lone[1]) else ()


def _interval(match: re.Match[str]) -> tuple[float, float]:
    start = _seconds(match["start"])
    if "length" in match.re.groupindex:
        return start, start + _seconds(match["length"])
    end = _seconds(match["end"])
    # "5 to 10 minutes", "5 minutes to 10": one unit for both.
    (first, own), (second, other) = _PARTS.findall(match["start"])[-1], _PARTS.findall(match["end"])[0]
    if ":" not in match["start"] + match["end"] and _number(first) < _number(second):
        if other and not own:
            start *= _UNITS[other.lower()]
        elif own and not other:
            end *= _UNITS[own.lower()]
    return _ordered(start, end)


def _ordered(first: float, second: float) -> tuple[float, float]:
    return min(first, second), max(first, second)


def _seconds(time: str) -> float:
    if ":" in time:
        seconds = 0.0
        for part in re.findall(r"\d+(?:[.,]\d+)?", time):
            seconds = seconds * 60 + float(part.replace(",", "."))
        return seconds
    return sum(_number(number) * _UNITS[unit.lower()] for number, unit in _PARTS.findall(time))


def _number(digits: str) -> float:
    thousands = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits)
    return float(digits.replace(",", "" if thousands else "."))
