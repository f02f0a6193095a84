"""What a GRPO row of the release's form leaves unsaid, read from its prompt and its gold answer.

The release's `train_grpo.jsonl` has chats and videos (`videopro.train.runtime.rows`). Its prompts are
those of the paper's Figs. 9 and 11 to 13, which show the question, its lettered choices, and the program to
refine. A row's own columns (`kind`, `question`, `choices`) take precedence over what is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from videopro.errors import DatasetError
from videopro.executor import ENTRY, parse_program
from videopro.question import LETTERS, Question, extract_letter

GOLD = ("answer", "solution", "gold", "ground_truth")
"""Columns that may have the gold answer; ms-swift passes `solution` to reward functions."""

_QUESTION = re.compile(
    r"^[ \t]*Question:[ \t]*(?P<text>.*?)\s*^[^\n:]*(?:choices|options)[^\n:]*:[ \t]*\n", re.I | re.M | re.S
)
_CHOICE = re.compile(r"^[ \t]*(?P<letter>[A-Z])[.)][ \t]*(?P<text>\S[^\n]*?)[ \t]*$")
_LOG = re.compile(r"\berror log\b", re.I)
_REFINE = re.compile(r"\brefine this (?:visual )?program\b", re.I)
_PROGRAM = re.compile(rf"def {ENTRY}\b.*?(?=\brefine this\b|</code>|\Z)", re.I | re.S)


def question_of_prompt(prompt: str, where: str) -> tuple[str, list[str]]:
    """The text and the choices of the last question that a prompt shows. Raises DatasetError if it shows
    none, or if where its choices end is unclear."""
    questions = list(_QUESTION.finditer(prompt))
    if not questions:
        raise DatasetError(
            f"{where}: has no columns 'question' and 'choices', and its prompt shows no 'Question: ...' with "
            "'Choices:'; add the columns"
        )
    # Earlier questions may be examples.
    for question in reversed(questions):
        choices = _lettered(prompt[question.end() :].split("\n"))
        if len(choices) >= 2:
            return question["text"], choices
    raise DatasetError(
        f"{where}: the choices in its prompt cannot be told apart (one line each, A. B. C. ...); add the "
        "columns 'question' and 'choices'"
    )


def _lettered(lines: Sequence[str]) -> list[str]:
    """The texts after A., B., ... at the start of these lines; empty if a later line of the same paragraph
    has a letter too, since one of them has a line break then."""
    choices: list[str] = []
    for line in lines:
        choice = _CHOICE.match(line)
        if choice is None or choice["letter"] != LETTERS[len(choices) : len(choices) + 1]:
            break
        choices.append(choice["text"])
    remainder = "\n".join(lines[len(choices) :]).split("\n\n")[0]
    return [] if any(_CHOICE.match(line) for line in remainder.split("\n")) else choices


def kind_of_prompt(prompt: str) -> str:
    """What a prompt asks for: "bug_fix" if it shows a log of errors, "native_refinement" or
    "program_refinement" if it shows a program to refine (by the modules that the program calls), else
    "plan"."""
    if _LOG.search(prompt):
        return "bug_fix"
    if not _REFINE.search(prompt):
        return "plan"
    source = _PROGRAM.search(prompt)
    program = parse_program(f"<code>\n{source[0].strip() if source is not None else ''}\n</code>")
    return "native_refinement" if program.mode == "native" else "program_refinement"


def gold_letter(record: Mapping[str, Any], question: Question, where: str) -> str:
    """The letter of a row's gold answer, which may be a letter, a choice's text, or a reply that names one.
    Raises DatasetError if the row has none."""
    gold = {name: record[name] for name in GOLD if record.get(name) not in (None, "")}
    if not gold:
        raise DatasetError(
            f"{where}: has no gold answer ({', '.join(GOLD)}), so no reply to it can be rewarded"
        )
    letters = {name: _letter(value, question) for name, value in gold.items()}
    if None in letters.values() or len(set(letters.values())) > 1:
        raise DatasetError(
            f"{where}: its gold answer {', '.join(f'{name}={value!r}' for name, value in gold.items())} is "
            f"not one of {', '.join(question.letters)}"
        )
    (letter,) = set(letters.values())
    assert letter is not None
    return letter


def _letter(value: Any, question: Question) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip()
    matching = [
        letter for letter, choice in zip(question.letters, question.choices, strict=True) if choice == text
    ]
    if len(matching) == 1:
        return matching[0]
    return extract_letter(text, question)
