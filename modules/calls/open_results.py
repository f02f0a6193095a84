"""Reading what a program returned for an open question: words, with the confidence of their call.

As for letters (`results`), the confidence never comes from the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from videopro.modules.calls.handles import AnswerHandle, abbreviate
from videopro.question import Answer

_LONGEST = 4000


def read_open_answer(value: Any, answers: Sequence[AnswerHandle] = ()) -> tuple[Answer, float | None]:
    """Read what a program returned for an open question: an answer, (answer, confidence), a mapping with
    "answer", a text or a number. Several texts are joined by commas. Returns the answer, whose words are its
    `raw`, with the confidence of the answering call that the words came from (0.0 if from none), and the
    confidence that the program claimed, or None.

    `answers` are the answers of the program's answering calls, in order. A text is matched to the last call
    with that answer, whatever their case and outer punctuation. A letter that a call chose stands for the
    text of its option.
    """
    claim: float | None = None
    if isinstance(value, Mapping):
        claim = _claim(value.get("confidence"))
        value = value.get("answer")
    # Only with a second part from 0 to 1: other pairs are two texts.
    elif isinstance(value, tuple | list) and len(value) == 2 and _claim(value[1]) is not None:
        claim = _claim(value[1])
        value = value[0]
    source: AnswerHandle | None = None
    if isinstance(value, AnswerHandle):
        source = value
        if value.is_claim:
            claim = value.confidence
        # make_result(query_frames(...)): the answer inside, which may itself come from make_result.
        while source is not None and source.is_claim:
            source = source.source
    text = _answer_text(value)
    if source is None and text:
        source = next((call for call in reversed(answers) if _same(text, call)), None)
    if source is not None:
        return replace(source.reply, letter=None, letters={}, raw=_answer_text(source)), claim
    return Answer(raw=abbreviate(text, _LONGEST)), claim


def _answer_text(value: Any) -> str:
    """The words of a returned value; of a chosen letter, the option's text."""
    if isinstance(value, AnswerHandle):
        return dict(zip(value.letters, value.choices, strict=False)).get(value.answer, value.answer)
    if isinstance(value, list | tuple):
        return ", ".join(text for part in value if (text := _answer_text(part)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    # "3", not "3.0", is what the reference says.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value).strip()


def _same(text: str, call: AnswerHandle) -> bool:
    return text.casefold().strip(" .") in {
        answer.casefold().strip(" .") for answer in (call.answer, _answer_text(call)) if answer
    }


def _claim(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)
