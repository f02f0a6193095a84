"""Reading a program's return value: a letter or, for an open question, words, with the confidence of the
answering call that it came from.

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
        value, claim = value.get("answer"), read_claim(value.get("confidence"))
    elif isinstance(value, list | tuple) and value:
        value, claim = value[0], read_claim(value[1]) if len(value) > 1 else None
    source, claim = _source(value, claim)
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
    own, letters = _own_letters(handle, question), {}
    # Probabilities of a choice among other options say nothing about the question's.
    if own and len(own) == len(handle.choices):
        shares = {own[call_letter]: share for call_letter, share in handle.letters.items()}
        letters = dict.fromkeys(question.letters, 0.0) | shares
    return replace(handle.reply, letter=letter, letters=letters)


def _own_letters(handle: AnswerHandle, question: Question) -> dict[str, str]:
    """The question's letter for each letter of a call whose option is one of the question's."""
    # Options may repeat: if they are the question's, each has its own letter and not that of the first.
    if handle.choices == question.choices:
        return dict(zip(handle.letters, question.letters, strict=True))
    first = {
        choice: letter for letter, choice in reversed([*zip(question.letters, question.choices, strict=True)])
    }
    options = zip(handle.letters, handle.choices, strict=True) if handle.choices else ()
    return {call_letter: first[choice] for call_letter, choice in options if choice in first}


def _letter_of(handle: AnswerHandle, question: Question) -> str | None:
    """The letter of the question's option that an answer stands for; None if there is none."""
    if handle.mode in ("native", "mc"):
        return _own_letters(handle, question).get(handle.answer)
    # "Yes", a number or free text: the option with that text. "A man" does not mean option A.
    text = _bare(handle.answer)
    same = [
        letter
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if text and _bare(choice) == text
    ]
    return same[0] if len(same) == 1 else None


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
        value, claim = value.get("answer"), read_claim(value.get("confidence"))
    # Only with a second part from 0 to 1: other pairs are two texts.
    elif isinstance(value, list | tuple) and len(value) == 2 and (share := read_claim(value[1])) is not None:
        value, claim = (value[0], share) if share == value[1] else (value, None)
    source, claim = _source(value, claim)
    text = _answer_text(value)
    if source is None and text:
        source = next((call for call in reversed(answers) if _same(text, call)), None)
    if source is not None:
        return replace(source.reply, letter=None, letters={}, raw=_answer_text(source)), claim
    return Answer(raw=abbreviate(text, 4000)), claim


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
    return _bare(text) in {_bare(answer) for answer in (call.answer, _answer_text(call)) if answer}


def _bare(text: str) -> str:
    """A text as answers are compared: without case and outer punctuation."""
    return text.casefold().strip(" .\n\t")


def _source(value: Any, claim: float | None) -> tuple[AnswerHandle | None, float | None]:
    """The answering call's answer in a returned value, and what the program claimed."""
    source = value if isinstance(value, AnswerHandle) else None
    if source is not None and source.is_claim:
        claim = source.confidence
    # make_result(query_mc(...)): the answer inside, which may itself come from make_result.
    while source is not None and source.is_claim:
        source = source.source
    return source, claim


def read_claim(value: Any) -> float | None:
    """A confidence that a program claims, clipped to 0..1; None if it is not a number."""
    # NaN is the number that is not equal to itself.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    # Cut before an integer of any size becomes a float.
    return float(min(max(value, 0), 1))
