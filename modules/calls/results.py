"""Reading a program's return value: a letter, with the confidence of the answering call it came from.

The confidence never comes from the program, which could report any number; what it claims is returned
separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from videopro.modules.calls.handles import AnswerHandle, abbreviate
from videopro.question import Answer, Question, extract_letter


def read_program_answer(
    value: Any, question: Question, answers: Sequence[AnswerHandle] = ()
) -> tuple[Answer, float | None]:
    """Read what a program returned: an answer, (answer, confidence), a mapping with "answer", or a text.
    Returns the answer, with the confidence of the answering call that its letter came from (0.0 if from
    none), and the confidence that the program claimed, or None.

    `answers` are the answers of the program's answering calls, in order (`ModuleLibrary.answers`). A bare
    letter or text is matched to the last call that chose an option, if it chose this one. An answer with
    other options is matched to the question's option with the same text.
    """
    claim: float | None = None
    if isinstance(value, Mapping):
        claim = _claim(value.get("confidence"))
        value = value.get("answer")
    elif isinstance(value, list | tuple) and value:
        claim = _claim(value[1]) if len(value) > 1 else None
        value = value[0]
    source: AnswerHandle | None = None
    if isinstance(value, AnswerHandle):
        source = value
        if value.is_claim:
            claim, source = value.confidence, value.source
        # make_result(query_mc(...)): the answer inside, which may itself come from make_result.
        while source is not None and source.is_claim:
            source = source.source
    text = value.answer if isinstance(value, AnswerHandle) else value
    text = text.strip() if isinstance(text, str) else ("" if text is None else str(text))
    if not text:
        return Answer(raw=source.raw_output if source is not None else ""), claim
    if source is not None:
        letter = _letter_of(source, question)
        if letter is not None:
            return _answer_of_call(source, letter, question), claim
    letter = extract_letter(text, question)
    raw = abbreviate(value.raw_output if isinstance(value, AnswerHandle) else text, 4000)
    if letter is None:
        return Answer(raw=raw), claim
    # The last call: among many, one or another gives any letter.
    named = [source for source in answers if _letter_of(source, question)]
    if named and _letter_of(named[-1], question) == letter:
        return _answer_of_call(named[-1], letter, question), claim
    return Answer(letter, raw=raw), claim


def _answer_of_call(handle: AnswerHandle, letter: str, question: Question) -> Answer:
    """A call's answer, with the letters of the question's options."""
    letters: Mapping[str, float] = {}
    if handle.choices and set(handle.choices) <= set(question.choices):
        letters = dict.fromkeys(question.letters, 0.0)
        for call_letter, choice in zip(handle.letters, handle.choices, strict=True):
            letters[_letter_at(question, handle, call_letter, choice)] = handle.letters[call_letter]
    return replace(handle.reply, letter=letter, letters=letters)


def _letter_of(handle: AnswerHandle, question: Question) -> str | None:
    """The letter of the question's option that an answer stands for; None if there is none."""
    if not handle.answer:
        return None
    if handle.mode in ("native", "mc"):
        choice = dict(zip(handle.letters, handle.choices, strict=True)).get(handle.answer)
        if choice is None or choice not in question.choices:
            return None
        return _letter_at(question, handle, handle.answer, choice)
    # "Yes", a number or free text: the option with that text. "A man" does not mean option A.
    answer_text = handle.answer.strip().rstrip(".").lower()
    same = [
        letter
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if choice.strip().rstrip(".").lower() == answer_text
    ]
    return same[0] if len(same) == 1 else None


def _letter_at(question: Question, handle: AnswerHandle, call_letter: str, choice: str) -> str:
    """The question's letter of an option. If the call's options are the question's, its own letter: options
    may repeat."""
    if handle.choices == question.choices:
        return call_letter
    return question.letters[question.choices.index(choice)]


def _claim(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return float(min(max(value, 0), 1))
