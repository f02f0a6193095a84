"""Selection by pseudo-labels: the answer that most agents of a library give stands for the right one.

It sees letters only: no gold answer can reach it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from videopro.errors import ConfigError


@dataclass(frozen=True)
class Agreement:
    """How a library agrees with its own majority."""

    labelled: int
    """Questions with a pseudo-label."""
    rates: Mapping[str, float]
    """Of each agent, the share of these questions to which it gave the pseudo-label."""

    def best(self, size: int) -> tuple[str, ...]:
        """The `size` agents of the highest rates, best first; of equal rates, the one named first."""
        ranked = sorted(self.rates, key=lambda name: -self.rates[name])
        return tuple(ranked[:size])


def pseudo_label(letters: Sequence[str | None]) -> str | None:
    """The letter that at least two agents gave, and more than any other. None if there is no such letter:
    a lone vote would only agree with itself, and of equally many nothing tells which letter is right."""
    ranked = Counter(letter for letter in letters if letter is not None).most_common(2)
    if not ranked or ranked[0][1] < 2 or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def agreement(answers: Mapping[str, Mapping[str, str | None]]) -> Agreement:
    """Compare each agent with the pseudo-labels. `answers`: by agent, the letter to each question, by id
    (None: no letter), of the same questions. Raises ConfigError if no question has a pseudo-label."""
    questions = list(next(iter(answers.values())))
    labels = {
        question: pseudo_label([letters[question] for letters in answers.values()]) for question in questions
    }
    agreed = {question: label for question, label in labels.items() if label is not None}
    if not agreed:
        raise ConfigError(
            f"none of {len(questions)} questions has an answer that two agents gave, and more than gave any "
            "other; name more agents that answer with a letter, or ask more questions"
        )
    rates = {
        name: sum(letters[question] == label for question, label in agreed.items()) / len(agreed)
        for name, letters in answers.items()
    }
    return Agreement(len(agreed), rates)
