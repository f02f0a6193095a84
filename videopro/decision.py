"""When an answer is good enough, what kind of refinement it needs, and which of several answers counts.

Pure functions over executions, so that a report can decide again for another threshold from what a run
stored. Knows traces; must not know planners, modules or how a program is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from videopro.trace import Execution

Final = Literal["last", "best"]


@dataclass(frozen=True)
class Decision:
    """What a run with some threshold makes of the executions of one question."""

    settled: int
    """The place of the answer that counts."""
    refined: int
    """Refinements that the threshold calls for, among those that there are."""


def is_confident(execution: Execution, tau: float) -> bool:
    """Whether an execution needs no refinement: it has an answer, and c >= tau (inclusive)."""
    return execution.status == "ok" and execution.answer is not None and execution.confidence >= tau


def decide(executions: Sequence[Execution], tau: float, final: Final, most: int | None = None) -> Decision:
    """Which answer counts under `tau`.

    Refinements are taken in turn until one is confident; with `most`, at most so many. "last": the latest
    answer counts (the paper's rule), except that a round that gave none takes nothing away; "best": the most
    confident one, the earliest among equals. ValueError without an execution.
    """
    if not executions:
        raise ValueError("There is nothing to decide without an execution.")
    end = 0
    last = len(executions) - 1 if most is None else min(most, len(executions) - 1)
    while end < last and not is_confident(executions[end], tau):
        end += 1
    answered = [i for i in range(end + 1) if executions[i].answer is not None]
    if not answered:
        settled = end
    elif final == "last":
        settled = answered[-1]
    else:
        settled = max(answered, key=lambda i: (executions[i].confidence, -i))
    return Decision(settled, end)
