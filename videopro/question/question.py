"""A multiple-choice or open question: its text, its options and their letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videopro.errors import QuestionError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# The gold of a question whose annotation matches none of its options. Official scorers count it as wrong; the
# robust score leaves it out.
NO_OPTION = "-"


def right_letters(gold: str | None, choices: Sequence[str]) -> frozenset[str]:
    """The letter `gold` and the letters of options with the same text (real benchmarks have such
    duplicates); empty if `gold` is None."""
    if gold is None:
        return frozenset()
    texts = dict(zip(LETTERS, choices, strict=False))
    return frozenset({gold, *(letter for letter, text in texts.items() if text == texts.get(gold))})


@dataclass(frozen=True)
class Question:
    """A question with 2 to 26 options, lettered A to Z in their order, or an open one without any
    (`Question.open`).

    Options may repeat (real benchmarks have such items), but neither the question nor an option may be empty.
    Raises QuestionError for anything else.
    """

    text: str
    choices: tuple[str, ...]
    is_open: bool = False
    """Whether it is answered in words."""

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence):
            raise QuestionError(f"The options of a question must be a list of texts, not {self.choices!r}.")
        # Benchmarks and callers give lists; a frozen dataclass with a list in it could not be hashed.
        object.__setattr__(self, "choices", tuple(self.choices))
        if not isinstance(self.text, str) or not self.text.strip():
            raise QuestionError("A question needs a text; this one is empty.")
        if self.is_open and self.choices:
            raise QuestionError(f"An open question has no options: {self.text!r}.")
        if not self.is_open and not 2 <= len(self.choices) <= len(LETTERS):
            raise QuestionError(
                f"A question needs 2 to {len(LETTERS)} options, this one has {len(self.choices)}: "
                f"{self.text!r}."
            )
        for letter, choice in zip(LETTERS, self.choices, strict=False):
            if not isinstance(choice, str) or not choice.strip():
                raise QuestionError(f"Option {letter} of {self.text!r} must be a text, not {choice!r}.")

    @classmethod
    def open(cls, text: str) -> Question:
        """A question to be answered in words."""
        return cls(text, (), is_open=True)

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the options, in order: ("A", "B", ...)."""
        return tuple(LETTERS[: len(self.choices)])

    def lettered_choices(self) -> str:
        """One line per option: "A. red" newline "B. blue"."""
        return "\n".join(
            f"{letter}. {choice}" for letter, choice in zip(self.letters, self.choices, strict=True)
        )

    def choice(self, letter: str) -> str:
        """The text of an option. Raises QuestionError for a letter that is not an option of this question."""
        if letter not in self.letters:
            raise QuestionError(
                f"{letter!r} is not an option of this question; its options are {', '.join(self.letters)}: "
                f"{self.text!r}."
            )
        return self.choices[self.letters.index(letter)]
