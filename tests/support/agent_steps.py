"""The parts of hand-made traces of agents: the pocket video that they are about, steps, and the trace around
them. They hold for any video of its length. See `tests.support.agent_traces`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from videopro.pocket import drawing
from videopro.question import Answer
from videopro.traces import (
    AGENT,
    SCHEMA,
    Cost,
    Execution,
    Preparation,
    Round,
    Step,
    Trace,
    VideoRef,
)

DURATION = 250.25
"""The length of pocket's video "medium_000" of the split "val", in s."""


def look(*times: float) -> tuple[tuple[float, ...], ...]:
    """References to the whole frames at these times (s)."""
    return tuple((time, float(drawing.HEIGHT), float(drawing.WIDTH)) for time in times)


def asked(kind: str, model: str, reply: Mapping[str, Any] | str, round: int = 0, **facts: Any) -> Step:
    """A request: a structured reply, or words. Its cost grows with its frames."""
    is_text = isinstance(reply, str)
    raw = reply if isinstance(reply, str) else json.dumps(reply)
    frames = len(facts.get("frames", ()))
    cost = Cost(
        0.4 + 0.05 * frames, {model: 0.4 + 0.03 * frames}, frames, 1, 120 + 64 * frames, len(raw.split())
    )
    return Step(
        **{
            "kind": kind,
            "model": model,
            "round": round,
            "prompt": f"{kind}: {QUESTION}",
            "raw": raw,
            "parsed": None if is_text else reply,
            "cost": cost,
            **facts,
        }
    )


def tool(kind: str, result: str, round: int = 0, **facts: Any) -> Step:
    """A tool that asks no model."""
    return Step(kind, round=round, result=result, cost=Cost(0.02), **facts)


QUESTION = "What moves through the stadium at the beginning?"
CHOICES = ("a black ball", "a green triangle", "a white box", "a red ball")


def trace(
    name: str,
    video: VideoRef,
    steps: Sequence[Step],
    answer: Answer,
    *,
    question: str = QUESTION,
    choices: tuple[str, ...] = CHOICES,
    gold: str | None = "A",
    claim: float | None = None,
    evidence: tuple[tuple[float, ...], ...] = ((0.0, 16.5),),
    prepared: tuple[Preparation, ...] = (),
    notes: tuple[str, ...] = (),
) -> Trace:
    """The trace of a question that one agent answered."""
    cost = Cost()
    for step in steps:
        cost = cost if step.is_reused else cost + step.cost
    is_answered = answer.letter is not None
    execution = Execution("ok" if is_answered else "empty", answer, claim, cost=cost, steps=tuple(steps))
    return Trace(
        schema=SCHEMA,
        run_key="made",
        question_id=name,
        video=video,
        question=question,
        choices=choices,
        gold=gold,
        groups={"family": "attribute", "length": "medium"},
        rounds=(Round(AGENT, answer.raw, execution=execution),),
        first=answer,
        final=answer,
        selected=0,
        official=answer.letter,
        cost=cost + Cost(0.3, {"decode": 0.3}),
        versions={"videopro": "0"},
        evidence=evidence,
        prepared=prepared,
        notes=notes,
    )
