"""The team file: which agents answer, chosen by pseudo-labels (`videopro select-agents` writes it).

A pseudo-label is the answer that most agents of a library give; it stands for the right one. It is made of
letters only: no gold answer can reach it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from videopro.errors import ConfigError
from videopro.storage import first_mistake, read_object
from videopro.traces import Cost, Preparation


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LibraryMember(_Part):
    """An agent of the library, and how often it agreed with the pseudo-labels."""

    model: str
    agreement: float = Field(ge=0, le=1)


class TeamFile(_Part):
    """A selection. No gold answer is in it, and none was read for it."""

    benchmark: str
    split: str
    domain: str = ""
    """The group of the benchmark that it is for, as NAME=VALUE; empty: all of it."""
    questions: int
    """How many questions each agent of the library answered."""
    labelled: int
    """How many of them have a pseudo-label: an answer that two agents gave, and more than gave any other."""
    agents: tuple[str, ...]
    """The team, best agreement first."""
    library: tuple[LibraryMember, ...]
    """All agents, in the order in which they were named."""
    cost: Cost = Cost()
    """What the selection cost: the sum over all answers of all agents of the library."""

    @property
    def key(self) -> str:
        """Identifies the selection, without costs."""
        content = self.model_dump_json(exclude={"cost"})
        return f"{self.benchmark}/{self.domain or 'all'}/{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    @property
    def preparation(self) -> Preparation:
        """The selection as the traces of a run with this team record it."""
        return Preparation("selection", self.key, self.cost)


def read_team(path: Path) -> TeamFile:
    """The team in a file. Raises ConfigError."""
    try:
        content = read_object(path.read_bytes(), str(path), ConfigError)
        return TeamFile.model_validate(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); pass a team file") from error
    except ValidationError as error:
        raise ConfigError(
            f"{path}: is not a team file of videopro select-agents ({first_mistake(error)})"
        ) from error


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
    a lone vote would only agree with itself, and a tie does not say which letter is right."""
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
            f"in none of {len(questions)} questions do most agents, and at least two, agree on an answer; "
            "add agents that answer with a letter, or ask more questions"
        )
    rates = {
        name: sum(letters[question] == label for question, label in agreed.items()) / len(agreed)
        for name, letters in answers.items()
    }
    return Agreement(len(agreed), rates)
