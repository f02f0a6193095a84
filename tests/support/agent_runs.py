"""Small hand-written runs of agents for tests of summaries and reports: counts that can be done on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.report_world import trace
from videopro.question import Answer
from videopro.traces import AGENT, Cost, Execution, Preparation, Round, Step, Trace

INDEX = Preparation("index", "v0/clips", Cost(seconds=8.0, frames=40.0))
DATABASE = Preparation("database", "v0/captions", Cost(3.0, {}, 20.0, 10.0, 1000.0, 100.0))


def reply(kind: str = "predict", *, times: Sequence[float] = (), **changes: Any) -> Step:
    """A structured reply that could be read. One call, 10 tokens in and 2 out, half a second."""
    facts: dict[str, Any] = {
        "raw": "{}",
        "parsed": {"final_answer": "A"},
        "prompt": f"{kind}?",
        "frames": tuple((time, 8.0, 8.0) for time in times),
        "cost": Cost(0.5, {}, float(len(times)), 1.0, 10.0, 2.0),
        **changes,
    }
    return Step(kind, "llm", **facts)


def repaired(**changes: Any) -> Step:
    """A reply that could be read after one repair."""
    return reply(rejected=("no",), faults=("there is no JSON object",), **changes)


def unparsed(**changes: Any) -> Step:
    """A reply that could not be read, even after a repair."""
    return reply(parsed=None, rejected=("no",), faults=("no JSON", "no JSON either"), **changes)


def agent_trace(number: int, letter: str | None, steps: Sequence[Step], **changes: Any) -> Trace:
    """Question `number` (of video number // 2), whose right answer is A, as an agent answered it. A quarter
    of a second besides its steps; reused steps cost it nothing."""
    cost = sum((step.cost for step in steps if not step.is_reused), Cost())
    answer = Answer(letter, 0.0, {}, letter or "no idea")
    execution = Execution("ok" if letter else "empty", answer, steps=tuple(steps), cost=cost)
    return trace(number, [Round(AGENT, answer.raw, execution=execution)], **changes)


def agent_run(letters: str, **changes: Any) -> list[Trace]:
    """One readable reply a question, over four frames."""
    return [
        agent_trace(i, letter, [reply(times=(1, 2, 3, 4))], **changes) for i, letter in enumerate(letters)
    ]


def reused(step: Step) -> Step:
    """The step as a later question gets it."""
    return replace(step, is_reused=True)
