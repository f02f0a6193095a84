"""What the agents of a run did, counted from its traces: steps, replies that could not be parsed, repairs,
forced answers. Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from videopro.traces.record import AGENT, FORCED, Step, Trace

ACT = "act"
"""The kind of a request for an agent's next action, which must be a call of a tool."""
# The fields of a letter read from the distribution over the next token, which needs no parsing.
_CHOICE = {"letter", "confidence"}
NEEDS_MODEL = 0.5
"""If more than this share of its structured replies could not be parsed, an agent's model cannot follow its
prompts, and its accuracy says nothing about the method."""


@dataclass(frozen=True)
class Replies:
    """Structured replies of a run's models, and how they were read."""

    n: int
    repaired: int
    """Those that could be parsed only after the model was shown its own error."""
    unparsed: int
    """Those that could not be parsed, even after that, and those of a conversation with tools without any
    call: the same reply as text does not fit the schema of a call."""

    @property
    def needs_model(self) -> bool:
        """Whether the method needs another language model; see NEEDS_MODEL."""
        return self.n > 0 and self.unparsed / self.n > NEEDS_MODEL


def replies_of(steps: Sequence[Step]) -> Replies:
    """Count the structured replies among steps. A reused reply counts each time."""
    structured = [step for step in steps if _is_structured(step)]
    return Replies(
        len(structured),
        sum(bool(step.rejected) and not _is_unparsed(step) for step in structured),
        sum(map(_is_unparsed, structured)),
    )


def lack_of_model(traces: Sequence[Trace]) -> str:
    """Why an agent's accuracy says nothing about its method: its model cannot follow its prompts, or could
    not be asked at all; "" if neither is so. To be shown instead of the accuracy."""
    replies = replies_of([step for trace in traces for step in trace.steps])
    if replies.needs_model:
        return f"needs a language model: {replies.unparsed} of {replies.n} replies could not be parsed"
    # Such a model wrote no reply that could fail to be parsed.
    refused = sum(trace.error is not None and trace.error.type == "BackboneError" for trace in traces)
    if refused and refused == len(traces):
        return f"needs a language model: the model refused {refused} of {refused} questions"
    return ""


def is_agent(trace: Trace) -> bool:
    """Whether an agent answered, or tried to."""
    return any(round.prompt_kind == AGENT for round in trace.rounds)


def is_forced(trace: Trace) -> bool:
    """Whether the agent was made to answer: it reached its last round or step, or spent a budget."""
    return any(FORCED in note for note in trace.notes)


def mean_frames_seen(traces: Sequence[Trace]) -> float | None:
    """Different moments of the video that a question's calls and steps looked at, as a mean over questions;
    None without questions."""
    return sum(trace.frames_seen for trace in traces) / len(traces) if traces else None


def agent_metrics(traces: Sequence[Trace]) -> dict[str, Any]:
    """JSON-able counts over the questions that an agent worked on; empty if there are none.

    `steps` and `reused` are means per question; `replies`, `by_kind`, `unanswered` and `forced` are counts. A
    question is unanswered if it ended without an error and without an answer.
    """
    by_agents = [trace for trace in traces if is_agent(trace)]
    if not by_agents:
        return {}
    steps = [step for trace in by_agents for step in trace.steps]
    replies = replies_of(steps)
    by_kind = Counter(step.kind for step in steps)
    return {
        "questions": len(by_agents),
        "steps": len(steps) / len(by_agents),
        "reused": sum(step.is_reused for step in steps) / len(by_agents),
        "replies": {
            "structured": replies.n,
            "repaired": replies.repaired,
            "unparsed": replies.unparsed,
            "questions_with_unparsed": sum(any(map(_is_unparsed, trace.steps)) for trace in by_agents),
        },
        "by_kind": {
            kind: {
                "n": by_kind[kind],
                "repaired": (counts := replies_of([step for step in steps if step.kind == kind])).repaired,
                "unparsed": counts.unparsed,
            }
            for kind in sorted(by_kind)
        },
        "unanswered": sum(_is_unanswered(trace) for trace in by_agents),
        "forced": sum(is_forced(trace) for trace in by_agents),
    }


def _is_structured(step: Step) -> bool:
    return _is_unparsed(step) or (
        step.parsed is not None and bool(step.model) and set(step.parsed) != _CHOICE
    )


def _is_unparsed(step: Step) -> bool:
    return step.is_unparsed or (step.kind == ACT and bool(step.model) and step.parsed is None)


def _is_unanswered(trace: Trace) -> bool:
    if trace.error is not None or trace.final is None:
        return False
    return trace.final.letter is None if trace.choices else not trace.final.raw.strip()
