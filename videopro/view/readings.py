"""What can be drawn of a call's result: answers, boxes and subtitle lines, read out of the text that a trace
keeps of them.

The texts are the handles' own (`videopro.modules.calls.handles`, their `__repr__`); a result that was cut
short gives what is whole in it. Only for showing: nothing is scored by it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_NUMBER = r"-?\d+(?:\.\d+)?"
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ANSWER = re.compile(rf"Answer\(({_TEXT}), confidence ({_NUMBER})\)")
_BOX = re.compile(rf"Box\(({_NUMBER}), ({_NUMBER}), ({_NUMBER}), ({_NUMBER}), ({_TEXT}), score ({_NUMBER})\)")
_PART = re.compile(rf"Frame\(({_NUMBER}) s, part (\d+),(\d+),(\d+),(\d+)\)")
_LINE = re.compile(rf"Line\(({_NUMBER})-({_NUMBER}) s, ({_TEXT})\)")


@dataclass(frozen=True)
class Box:
    """Where something was found: x0, y0, x1, y1 in pixels of the frame that was looked at."""

    corners: tuple[float, float, float, float]
    label: str
    score: float


@dataclass(frozen=True)
class SpokenLine:
    """A subtitle line, `start` to `end` in seconds."""

    start: float
    end: float
    text: str


def answer_in(result: str) -> tuple[str, float] | None:
    """The answer that the result is, with its confidence; None for a result that is no single answer."""
    match = _ANSWER.fullmatch(result)
    return (_unquoted(match[1]), float(match[2])) if match else None


def boxes_in(result: str) -> list[Box]:
    """The boxes that the result names, in its order."""
    return [
        Box((float(x0), float(y0), float(x1), float(y1)), _unquoted(label), float(score))
        for x0, y0, x1, y1, label, score in _BOX.findall(result)
    ]


def lines_in(result: str) -> list[SpokenLine]:
    """The subtitle lines that the result names, in its order."""
    return [SpokenLine(float(a), float(b), _unquoted(text)) for a, b, text in _LINE.findall(result)]


def part_in(result: str) -> tuple[float, tuple[float, float, float, float]] | None:
    """(time in s, x0, y0, x1, y1 in pixels of the video) of the crop that the result is; None for a result
    that is no single crop."""
    match = _PART.fullmatch(result)
    if match is None:
        return None
    x0, y0, x1, y1 = (float(one) for one in match.groups()[1:])
    return float(match[1]), (x0, y0, x1, y1)


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):  # A stray escape: as it stands.
        return text[1:-1]
