"""Reading parts of a video out of a reply that says when something happens."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from videopro.question.invisible import visible
from videopro.question.thoughts import spoken

if TYPE_CHECKING:
    from videopro.question.question import Question

# What a reply says: a letter, intervals (start, end) in seconds, or None if it cannot be read.
Reading: TypeAlias = "str | Sequence[tuple[float, float]] | None"
# Reads a reply to a question.
Parser: TypeAlias = "Callable[[str, Question], Reading]"

_NUMBER = r"\d+(?:\.\d+)?"
_CLOCK = r"(?:\d{1,2}:)?\d{1,2}:\d{2}(?:\.\d+)?"
_UNIT = r"\s*(?:seconds?|secs?|s)\b\.?"
_TIME = rf"(?<![\d.:])(?:{_CLOCK}|{_NUMBER})(?![\d:])(?:{_UNIT})?"
_BETWEEN = r"\s*(?:-|–|—|~|\bto\b|\buntil\b|\btill\b|\bthrough\b|(?<=\w)\s+and\b)\s*"
_RANGE = re.compile(rf"(?P<start>{_TIME}){_BETWEEN}(?:the\s+)?(?P<end>{_TIME})", re.IGNORECASE)
_PAIR = re.compile(rf"[\[(]\s*(?P<start>{_TIME})\s*,\s*(?P<end>{_TIME})\s*[\])]", re.IGNORECASE)
_LABELLED = re.compile(
    rf"\b(?:start|begin)[a-z]*\b[^\d\n]{{0,40}}(?P<start>{_TIME})"
    rf"[^\d]{{0,80}}?\b(?:end|finish|stop|conclude)[a-z]*\b[^\d\n]{{0,40}}(?P<end>{_TIME})",
    re.IGNORECASE,
)
_ANY_TIME = re.compile(_TIME, re.IGNORECASE)


def extract_intervals(reply: str, question: Question | None = None) -> tuple[tuple[float, float], ...]:
    """The intervals (start, end) in seconds that a reply names, in its order; empty if it names none.

    Reads "24.3 - 30.4 s", "from 0:12 to 1:03", "[3, 5.5]" and JSON pairs, "starts at 3 s and ends at 5 s",
    and two times that stand alone. Thoughts are left out; an end before its start is swapped.

    >>> extract_intervals("The event happens in the 24.3 - 30.4 seconds.")
    ((24.3, 30.4),)
    >>> extract_intervals("It starts at 1:02 and ends at 1:09.")
    ((62.0, 69.0),)
    """
    text = visible(spoken(reply))
    # The most explicit form first: "starts at 3 and ends at 5-6 s" holds a range too.
    for form in (_LABELLED, _PAIR, _RANGE):
        if matches := list(form.finditer(text)):
            return tuple(_ordered(match["start"], match["end"]) for match in matches)
    times = _ANY_TIME.findall(text)
    # Of three lone times nobody can tell which two belong together.
    return (_ordered(times[0], times[1]),) if len(times) == 2 else ()


def _ordered(start: str, end: str) -> tuple[float, float]:
    first, second = sorted((_seconds(start), _seconds(end)))
    return first, second


def _seconds(time: str) -> float:
    digits = re.match(rf"{_CLOCK}|{_NUMBER}", time)
    assert digits is not None
    seconds = 0.0
    for part in digits[0].split(":"):
        seconds = seconds * 60 + float(part)
    return seconds
