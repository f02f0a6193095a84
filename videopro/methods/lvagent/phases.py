"""How long the phases of LVAgent took, from a trace (its supplement, B.2, counts seconds per video)."""

from __future__ import annotations

from collections.abc import Mapping

from videopro.traces import Result

PHASES: Mapping[str, str] = {
    "whole": "perception",
    "key": "perception",
    "retrieve": "perception",
    "answer": "action",
    "reason": "reflection",
    "score": "reflection",
    "leave": "reflection",
}
"""The phase of each kind of step. Decoding the frames of an answer counts as action."""


def phase_seconds(result: Result) -> dict[str, float]:
    """Seconds of perception, action and reflection, over all rounds: the question's own seconds, divided as
    its steps' wall times are. These overlap with those of other questions in flight, so that their sum would
    count moments several times. What was prepared for many questions (the index of the chunks, the selection
    of the team) is in `result.prepared`."""
    seconds = dict.fromkeys(("perception", "action", "reflection"), 0.0)
    total = sum(step.cost.seconds for step in result.steps)
    for step in result.steps:
        # A fallback's direct answer belongs to no phase.
        if step.kind in PHASES and total > 0:
            seconds[PHASES[step.kind]] += step.cost.seconds * result.cost.seconds / total
    return seconds
