"""A language model that replies what a test gives it, and agents with such models: devices for tests, never
results."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from videopro.backbones import Sampling
from videopro.methods import create
from videopro.methods.agents import AgentModel, ModelReply, Tool, ToolsRefused, Turn
from videopro.question import Answer, Question
from videopro.traces import Result, Step
from videopro.video import Frame

Line: TypeAlias = "str | Mapping[str, Any] | Exception | Callable[[str, Sequence[Frame]], Any]"
"""A reply: text, an object that is sent as JSON, an error to raise, or a function of prompt and frames."""


@dataclass
class Request:
    """What the model was sent."""

    prompt: str
    frames: tuple[Frame, ...] = ()
    schema: Mapping[str, Any] | None = None
    sampling: Sampling | None = None
    turns: tuple[Turn, ...] = ()


@dataclass
class ScriptedModel(AgentModel):
    """Replies `lines` in order, and fails the test if it is asked more often; with `forever`, the last line
    is repeated. A ModelReply in `lines` is returned as it is (for calls of tools)."""

    lines: Sequence[Line | ModelReply]
    name: str = "scripted"
    frames: int = 16
    forever: bool = False
    offers_tools: bool = False
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def identity(self) -> dict[str, object]:
        return {"kind": "scripted"}

    def frame_size(self, height: int, width: int, count: int) -> tuple[int, int] | None:
        return None

    def reply(
        self,
        prompt: str,
        frames: Sequence[Frame],
        sampling: Sampling,
        schema: Mapping[str, Any] | None = None,
    ) -> ModelReply:
        assert len(frames) <= self.frames
        return self._next(Request(prompt, tuple(frames), schema, sampling))

    def choose(self, question: Question, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self._answer(question.letters, prompt, frames)

    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self._answer(("Yes", "No"), prompt, frames)

    def _answer(self, known: Sequence[str], prompt: str, frames: Sequence[Frame]) -> Answer:
        reply = self._next(Request(prompt, tuple(frames)))
        letter = reply.text if reply.text in known else None
        return Answer(letter, 0.9 if letter else 0.0, {}, reply.text, reply.tokens_in, reply.tokens_out)

    def converse(self, turns: Sequence[Turn], tools: Sequence[Tool], sampling: Sampling) -> ModelReply:
        if not self.offers_tools:
            raise ToolsRefused("scripted without tools")
        return self._next(Request(turns[-1].text, turns=tuple(turns), sampling=sampling))

    def _next(self, request: Request) -> ModelReply:
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
        last = len(self.lines) - 1
        assert self.forever or place <= last, f"asked once too often: {request.prompt!r}"
        line = self.lines[min(place, last)]
        if callable(line):
            line = line(request.prompt, request.frames)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, ModelReply):
            return line
        text = line if isinstance(line, str) else json.dumps(line)
        return ModelReply(text, tokens_in=100, tokens_out=len(text.split()))


def scripted(name: str, models: Mapping[str, AgentModel], **settings: Any) -> Any:
    """The agent of this name with these models by role."""
    agent: Any = create(name, settings)
    agent.models = lambda backbone: {role: models[role] for role in agent.equipment().roles}
    return agent


def kinds(result: Result) -> str:
    """What each step was for, with its round if it is not the first."""
    return " ".join(f"{step.kind}{step.round or ''}" for step in result.steps)


def steps(result: Result, *kinds: str) -> list[Step]:
    return [step for step in result.steps if step.kind in kinds]
