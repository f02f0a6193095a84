"""The pocket teacher's faults: what a large language model gets wrong in such programs, injected on purpose.

Four classes, each with a few forms, injected into a correct program's text. `SHARES` is how often each
occurs:

    clumsy query   12 %   looks for the whole question, for something vague, or for words that nobody says
    wrong window    8 %   minutes for seconds, a window on the wrong side or beside the moment, beyond the end
    misused call   12 %   an unknown keyword, a missing argument, a text for a list, arguments in wrong order
    plain bug       8 %   a wrong or undefined name, an index or an attribute that is not there, no return

The other 60 % are correct. If a class does not apply to a program, another is drawn, so that the share of
faulty programs is the same for every kind of question; forms within a class are equally likely.
The first two classes mostly run and answer wrongly or unsurely; the last two fail, unless they sit in a
branch that is not taken.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FaultInjector = Callable[[str, str], str]
"""From a program and its question: the program with a fault, or the same text if it does not apply."""

SHARES: Mapping[str, float] = {
    "clumsy query": 0.12,
    "wrong window": 0.08,
    "misused call": 0.12,
    "plain bug": 0.08,
}


@dataclass(frozen=True)
class FaultyProgram:
    """A faulty program, with the class and the form of its fault."""

    kind: str
    form: str
    code: str


def inject_fault(
    code: str, question: str, rng: random.Random, shares: Mapping[str, float] = SHARES
) -> FaultyProgram | None:
    """The program with a fault drawn from `shares`; None for no fault.

    The shares are of all programs; the remainder to 1 is correct.
    """
    roll = rng.random()
    if roll >= sum(shares.values()):
        return None
    forms = {kind: possible_forms(code, question, kind) for kind in shares}
    fitting = [kind for kind in shares if forms[kind]]
    if not fitting:
        return None
    kind = rng.choices(fitting, [shares[fault] for fault in fitting])[0]
    form = rng.choice(sorted(forms[kind]))
    return FaultyProgram(kind, form, forms[kind][form])


def possible_forms(code: str, question: str, kind: str) -> dict[str, str]:
    """The forms of a class that apply to a program, with the resulting program for each."""
    programs = {form: change(code, question) for form, change in FORMS[kind].items()}
    return {form: text for form, text in programs.items() if text != code}


# ---- injection ---------------------------------------------------------------------------------------


def _swap(pattern: str, new: str) -> FaultInjector:
    """Replaces the first match of a pattern."""
    return lambda code, _: re.sub(pattern, new, code, count=1)


_QUERY = r'(get_informative_(?:clips|subtitles)\(video, )"(?:[^"\\]|\\.)*"'
_SPOKEN = r'(get_informative_subtitles\(video, )"(?:[^"\\]|\\.)*"'


def _query(text: str) -> FaultInjector:
    return lambda code, _: re.sub(_QUERY, lambda m: f'{m[1]}"{text}"', code, count=1)


def _whole_question(code: str, question: str) -> str:
    text = question.replace("\\", " ").replace('"', "")
    return re.sub(_QUERY, lambda m: f'{m[1]}"{text}"', code, count=1)


def _no_return(code: str, question: str) -> str:
    """The last line without its return: the program returns nothing."""
    head, separator, tail = code.rpartition("    return ")
    return f"{head}    answer = {tail}" if separator else code


def _misnamed(code: str, question: str) -> str:
    """A wrong name for the frames of the last question."""
    for name in ("frames", "kept", "parts"):
        head, separator, tail = code.rpartition(f"query_mc({name},")
        if separator:
            return f"{head}query_mc(images,{tail}"
    return code


_ATTRIBUTES = {
    "frame.time": "frame.seconds",
    "clip.start": "clip.begin",
    "line.text": "line.words",
    "answer.confidence": "answer.score",
}


def _attribute(code: str, question: str) -> str:
    """A wrong name for the first attribute."""
    pattern = "|".join(re.escape(name) for name in _ATTRIBUTES)
    return re.sub(rf"\b({pattern})\b", lambda m: _ATTRIBUTES[m[1]], code, count=1)


def _undefined(code: str, question: str) -> str:
    head, separator, tail = code.partition("\n    return query_mc(frames,")
    if not separator:
        return code
    return f"{head}\n    frames = helper(frames)\n    return query_mc(frames,{tail}"


_WINDOW = r"trim_frames\(video, (.*), (.*), num"
_LAST_QUERY = r"return query_mc\((\w+), (question|\"[^\"]*\"), choices"

FORMS: Mapping[str, Mapping[str, FaultInjector]] = {
    "clumsy query": {
        "the whole question": _whole_question,
        "something vague": _query("something in the video"),
        "the task itself": _query("the right option"),
        "words nobody says": lambda code, _: re.sub(_SPOKEN, r'\1"answer"', code, count=1),
    },
    "wrong window": {
        "beside the moment": _swap(_WINDOW, r"trim_frames(video, \1 + 40, \2 + 40, num"),
        "minutes for seconds": _swap(_WINDOW, r"trim_frames(video, (\1) / 60, (\2) / 60, num"),
        "beyond the end": _swap(_WINDOW, r"trim_frames(video, duration + 1, duration + 10, num"),
        "turned around": _swap(_WINDOW, r"trim_frames(video, \2, \1, num"),
        "milliseconds": _swap(r"trim_around\(video, ([^,]+), ", r"trim_around(video, (\1) * 1000, "),
        "the beginning only": _swap(
            r"extract_frames\(video, num_frames=\d+\)", "trim_frames(video, 0, 2, num_frames=8)"
        ),
    },
    "misused call": {
        "unknown keyword": _swap(r"top_k=", "limit="),
        "another unknown keyword": _swap(r"num_frames=", "total="),
        "choices left out": _swap(r"return query_mc\((\w+), ([^)]*?), choices", r"return query_mc(\1, \2"),
        "choices as one text": _swap(r", choices(.*\))$", r", str(choices)\1"),
        "frames and question swapped": _swap(_LAST_QUERY, r"return query_mc(\2, \1, choices"),
        "video left out": _swap(r"(get_informative_\w+)\(video, ", r"\1("),
        "a list for one frame": _swap(r"query_mc\((\w+), question", r"query_mc([run_ocr(\1)], question"),
    },
    "plain bug": {
        "a wrong name": _misnamed,
        "a name that is not there": _undefined,
        "an index beyond the list": _swap(r"(intervals|lines|clips|kept|hints)\[0\]", r"\1[99]"),
        "an attribute that is not there": _attribute,
        "unpacked too far": _swap(r"start, end = (\w+)\[0\]", r"start, end, score = \1[0]"),
        "a bracket left open": _swap(r"(return query_mc\(.*)\)", r"\1"),
        "no return": _no_return,
    },
}
