"""Parse answers, boxes and subtitle lines out of a call's recorded result, to show them.

The text is the `__repr__` of the handles (`videopro.modules.calls.handles`); from a truncated result, the
complete parts are read. For display and as evidence only, never for scoring.
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
    """A detection: x0, y0, x1, y1 in pixels of the frame that the module was given."""

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
    """The answer and its confidence; None if the result is not a single answer."""
    match = _ANSWER.fullmatch(result)
    return (_unquoted(match[1]), float(match[2])) if match else None


def boxes_in(result: str) -> list[Box]:
    """The boxes in the result, in order."""
    return [
        Box((float(x0), float(y0), float(x1), float(y1)), _unquoted(label), float(score))
        for x0, y0, x1, y1, label, score in _BOX.findall(result)
    ]


def lines_in(result: str) -> list[SpokenLine]:
    """The subtitle lines in the result, in order."""
    return [SpokenLine(float(a), float(b), _unquoted(text)) for a, b, text in _LINE.findall(result)]


def text_in(result: str) -> str | None:
    """The text, if the result is text, such as what was read in a frame; None otherwise, or if it was
    truncated."""
    return _unquoted(result) if re.fullmatch(_TEXT, result) else None


def part_in(result: str) -> tuple[float, tuple[float, float, float, float]] | None:
    """The time (s) and the box (x0, y0, x1, y1 in pixels of the video) of a crop; None if the result is not a
    single crop."""
    match = _PART.fullmatch(result)
    if match is None:
        return None
    x0, y0, x1, y1 = (float(value) for value in match.groups()[1:])
    return float(match[1]), (x0, y0, x1, y1)


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):  # An invalid escape: keep the text as is.
        return text[1:-1]
