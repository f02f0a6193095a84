"""When an answer is good enough, what kind of refinement it needs, and which of several answers counts.

Pure functions over executions, so that a report can decide again for another threshold from what a run
stored. Knows traces; must not know planners, modules or how a program is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from videopro.traces.record import Execution

FinalRule = Literal["last", "last-answered", "best"]
"""Which of its programs' answers a question has; see `select_answer`."""
FallbackRule = Literal["none", "native"]
"""What answers where its programs gave no answer: nothing, or the model directly."""


@dataclass(frozen=True)
class AnswerRule:
    """Which answer of a question counts. The default is the rule of the paper and of its release."""

    final: FinalRule = "last"
    fallback: FallbackRule = "none"

    @property
    def title(self) -> str:
        """What tables call it."""
        named = {"last": "last program", "last-answered": "last answer", "best": "surest answer"}[self.final]
        return named if self.fallback == "none" else f"{named}, native fallback"


def recorded_rule(settings: Mapping[str, object]) -> AnswerRule:
    """The rule that a run went by, from its method's settings as the run recorded them. Runs of older
    versions have it as `final`, where "last" meant the latest answer that there was."""
    older = {"last": "last-answered"}.get(str(settings.get("final")), settings.get("final"))
    final = settings.get("final_answer", older or "last")
    return AnswerRule(cast(FinalRule, final), cast(FallbackRule, settings.get("fallback", "none")))


@dataclass(frozen=True)
class Selection:
    """What a run with some threshold makes of the executions of one question."""

    selected: int
    """The place of the answer that counts."""
    refined: int
    """Refinements that the threshold calls for, among those that there are."""


def is_confident(execution: Execution, tau: float) -> bool:
    """Whether an execution needs no refinement: it has an answer, and c >= tau (inclusive)."""
    return (
        execution.status == "ok"
        and execution.answer.letter is not None
        and execution.answer.confidence >= tau
    )


def select_answer(
    executions: Sequence[Execution], tau: float, final: FinalRule, most: int | None = None
) -> Selection:
    """Which execution's answer counts under `tau`.

    Refinements are taken in turn until one is confident; with `most`, at most so many. "last": the last
    program's answer counts, also where it failed and has none (the paper's rule and its release's).
    "last-answered": the latest answer that there is, so that a refinement which gave none takes nothing away.
    "best": the most confident answer, the earliest among equals. Where no program gave an answer the last one
    counts under each of them. ValueError without an execution.
    """
    if not executions:
        raise ValueError("There is nothing to decide without an execution.")
    end = 0
    last = len(executions) - 1 if most is None else min(most, len(executions) - 1)
    while end < last and not is_confident(executions[end], tau):
        end += 1
    answered = [i for i in range(end + 1) if executions[i].answer.letter is not None]
    if final == "last" or not answered:
        selected = end
    elif final == "last-answered":
        selected = answered[-1]
    else:
        selected = max(answered, key=lambda i: (executions[i].answer.confidence, -i))
    return Selection(selected, end)
