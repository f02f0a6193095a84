"""The events of a question, as a client of the protocol gets them: progress, and the answer in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult

from videopro.errors import ConfigError
from videopro.serve.mcp import results
from videopro.serve.mcp.structured import structured

# What an answer's steps are made of; evidence and the answer have fields of their own.
_STEPS = ("reply", "call", "execution", "step")


def doing_of(event: dict[str, Any]) -> str | None:
    """What a client is told of an event."""
    kind = event["type"]
    if kind == "wait":
        return str(event["doing"])
    if kind == "reply":
        return "a program was written"
    if kind == "call":
        return f"{event['name']}: {event['result']}"[:200]
    if kind == "execution":
        return f"the program ended: {event['status']}"
    return f"step {event['number']}: {event['kind']}" if kind == "step" else None


def answered(events: Sequence[dict[str, Any]]) -> CallToolResult:
    """The result of a question, by all its events. Raises ConfigError if it has no answer."""
    answer = events[-1]
    if answer["type"] == "error":
        raise ConfigError(f"the question could not be answered: {answer['error']['message']}")
    names = set(results.Answered.model_fields) - {"steps", "evidence"}
    return structured(
        results.Answered(
            **{name: answer[name] for name in names},
            steps=[event for event in events if event["type"] in _STEPS],
            evidence=[results.Evidence(**event) for event in events if event["type"] == "evidence"],
        )
    )
