"""Decides whether an answer is confident enough, and which of several answers counts.

Pure functions over executions, so that a report can apply another threshold to what a run stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from videopro.traces.record import AGENT, Execution, Result

FinalRule = Literal["last", "last-answered", "best"]
"""Which of its programs' answers counts for a question; see `select_answer`."""
FallbackRule = Literal["none", "native"]
"""What answers a question if none of its programs did: nothing, or the model directly."""


@dataclass(frozen=True)
class AnswerRule:
    """Which answer of a question counts. The default is the rule of the paper and its release."""

    final: FinalRule = "last"
    fallback: FallbackRule = "none"

    @property
    def title(self) -> str:
        """Its name in tables."""
        named = {"last": "last program", "last-answered": "last answer", "best": "most confident answer"}[
            self.final
        ]
        return named if self.fallback == "none" else f"{named}, native fallback"


def recorded_rule(settings: Mapping[str, object]) -> AnswerRule:
    """The rule of a run, from its recorded method settings."""
    final = settings.get("final_answer", "last")
    return AnswerRule(cast(FinalRule, final), cast(FallbackRule, settings.get("fallback", "none")))


@dataclass(frozen=True)
class Selection:
    """Which execution of a question counts under a threshold, and how many refinements it took."""

    selected: int
    """Index of the execution whose answer counts."""
    refined: int
    """Number of refinements under the threshold, among those that exist."""


def is_confident(execution: Execution, tau: float) -> bool:
    """Whether an execution needs no refinement: it has an answer, and c >= tau (inclusive).

    In words, c is the geometric mean of the probabilities of the answer's tokens (Eq. 2), so a long answer is
    as confident as its tokens are on average.
    """
    return execution.status == "ok" and execution.answer.confidence >= tau


def select_answer(
    executions: Sequence[Execution], tau: float, final: FinalRule, most: int | None = None
) -> Selection:
    """Select the execution whose answer counts under `tau`.

    Refinements count in turn until one is confident, at most `most` of them. "last": the last program's
    answer, even if it failed and has none (the rule of the paper and its release). "last-answered": the last
    answer that exists, so that a failed refinement loses nothing. "best": the most confident answer, the
    earliest of equals. If no program gave an answer, the last one counts under every rule. Raises ValueError
    without executions.
    """
    if not executions:
        raise ValueError("There is nothing to select from without an execution.")
    end = 0
    last = len(executions) - 1 if most is None else min(most, len(executions) - 1)
    while end < last and not is_confident(executions[end], tau):
        end += 1
    answered = [i for i in range(end + 1) if executions[i].status == "ok"]
    if final == "last" or not answered:
        selected = end
    elif final == "last-answered":
        selected = answered[-1]
    else:
        selected = max(answered, key=lambda i: (executions[i].answer.confidence, -i))
    return Selection(selected, end)


def shown_confidence(result: Result, *, is_open: bool) -> float | None:
    """The confidence of the answer that counts, for readers; None if no answering call gave it one, as when
    an agent's reply names its answer."""
    if result.final is None:
        return None
    is_agent = result.selected is not None and result.rounds[result.selected].prompt_kind == AGENT
    is_answered = result.final.letter is not None or is_open
    return None if is_agent and is_answered and not result.final.confidence else result.final.confidence
