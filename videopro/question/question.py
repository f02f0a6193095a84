"""A multiple-choice or open question: its text, its options and their letters; and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """Whether it is open-ended: answered in words."""

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence):
            raise QuestionError(f"The options of a question must be a list of strings, not {self.choices!r}.")
        # Benchmarks and callers give lists; a frozen dataclass with a list in it could not be hashed.
        object.__setattr__(self, "choices", tuple(self.choices))
        if not isinstance(self.text, str) or not self.text.strip():
            raise QuestionError("A question needs a text; this one is empty.")
        if self.is_open and self.choices:
            raise QuestionError(f"An open-ended question has no options: {self.text!r}.")
        if not self.is_open and not 2 <= len(self.choices) <= len(LETTERS):
            raise QuestionError(
                f"A question needs 2 to {len(LETTERS)} options, this one has {len(self.choices)}: "
                f"{self.text!r}."
            )
        for letter, choice in zip(LETTERS, self.choices, strict=False):
            if not isinstance(choice, str) or not choice.strip():
                raise QuestionError(f"Option {letter} of {self.text!r} must be a string, not {choice!r}.")

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


@dataclass(frozen=True)
class Answer:
    """An answer with the confidence of Eq. 2.

    A letter is one token, so Eq. 2 has L = 1 and the confidence is that token's probability under the softmax
    over the full vocabulary. Of an answer in words it is the exponential of the mean log-probability of its
    tokens, that is, the geometric mean of their probabilities.
    """

    letter: str | None = None
    """The option's letter, "Yes" or "No", or a counted number; None for any other reply, and for an
    answer in words, which is in `raw`."""
    confidence: float = 0.0
    """Eq. 2, in 0..1, of the call that gave the answer or of those that decided its letter; 0.0 if there is
    no answer, and for a letter or words that no call gave or decided."""
    letters: Mapping[str, float] = field(default_factory=dict)
    """Probability of each option's letter, not renormalised: the sum is the mass that the model puts on
    letters. Empty if the reply was free text."""
    raw: str = ""
    """The text that an official scorer reads: the most likely token, or the reply."""
    tokens_in: int = 0
    """Prompt tokens of the call, including visual tokens and those of a shared prefix; 0 if no call gave the
    answer, and in traces of schema 2 and older."""
    tokens_out: int = 0
    cut_at: int | None = None
    """The token limit that cut the reply off; None: the model ended it. In traces since schema 4."""
