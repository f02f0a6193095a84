"""What a program's return value says: a letter, with the confidence of the answering call it came from.

A confidence is never taken from the program: what it claims is kept apart (DESIGN.md). Knows answers and
questions; nothing of how programs run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from videopro.modules.calls.handles import AnswerHandle, shorten
from videopro.question import Answer, Question, extract_letter


def read_program_answer(
    value: Any, question: Question, answers: Sequence[AnswerHandle] = ()
) -> tuple[Answer, float | None]:
    """Read what a program returned: an answer, (answer, confidence), a mapping with "answer", or a text.
    Returns its answer, with the confidence of the answering call that the letter came from (0.0 if it came
    from none), and the confidence that the program claimed for itself, if it did.

    `answers` are those of the program's answering calls, in order (`ModuleLibrary.answers`). A bare letter
    or text belongs to the last call that gave it; an answer about other options, to the option of the
    question that has the same text.
    """
    claim: float | None = None
    if isinstance(value, Mapping):
        claim = _claim(value.get("confidence"))
        value = value.get("answer")
    elif isinstance(value, list | tuple) and value:
        claim = _claim(value[1]) if len(value) > 1 else None
        value = value[0]
    made: AnswerHandle | None = None
    if isinstance(value, AnswerHandle):
        made = value
        if value.is_claim:
            claim, made = value.confidence, value.source
        # make_result(query_mc(...)): the answer that it was given, which may be a claim again.
        while made is not None and made.is_claim:
            made = made.source
    text = value.answer if isinstance(value, AnswerHandle) else value
    text = text.strip() if isinstance(text, str) else ("" if text is None else str(text))
    if not text:
        return Answer(raw=made.raw_output if made is not None else ""), claim
    if made is not None:
        letter = _letter_of(made, question)
        if letter is not None:
            return _answer_of_call(made, letter, question), claim
    letter = extract_letter(text, question)
    raw = value.raw_output if isinstance(value, AnswerHandle) else shorten(text, 4000)
    if letter is None:
        return Answer(raw=raw), claim
    for made in reversed(answers):
        if _letter_of(made, question) == letter:
            return _answer_of_call(made, letter, question), claim
    return Answer(letter, raw=raw), claim


def _answer_of_call(made: AnswerHandle, letter: str, question: Question) -> Answer:
    """The answer of a call, in the question's own letters."""
    letters: Mapping[str, float] = {}
    if made.choices and set(made.choices) <= set(question.choices):
        letters = dict.fromkeys(question.letters, 0.0)
        for own, choice in zip(made.letters, made.choices, strict=True):
            letters[_letter_at(question, made, own, choice)] = made.letters[own]
    return replace(made.given, letter=letter, letters=letters)


def _letter_of(made: AnswerHandle, question: Question) -> str | None:
    """The question's option that an answer means."""
    if not made.answer:
        return None
    if made.mode in ("native", "mc"):
        choice = dict(zip(made.letters, made.choices, strict=True)).get(made.answer)
        if choice is None or choice not in question.choices:
            return None
        return _letter_at(question, made, made.answer, choice)
    # Yes, a number or words: the option that reads so. Prose is no letter: "A man" is not option A.
    wanted = made.answer.strip().rstrip(".").lower()
    same = [
        letter
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if choice.strip().rstrip(".").lower() == wanted
    ]
    return same[0] if len(same) == 1 else None


def _letter_at(question: Question, made: AnswerHandle, own: str, choice: str) -> str:
    """The question's letter of an option; where the options are the question's own, the letter itself, since
    options may repeat."""
    if made.choices == question.choices:
        return own
    return question.letters[question.choices.index(choice)]


def _claim(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return min(max(float(value), 0.0), 1.0)
