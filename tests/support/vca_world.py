"""VCA on the minute of coloured scenes, with a scripted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.method_world import context, item
from tests.support.scenes import SceneBackbone
from tests.support.scripted_model import Line, Request, ScriptedModel, kinds, scripted, steps
from videopro.methods.agents import ModelReply
from videopro.traces import Step


@dataclass
class Ended:
    """A question after VCA."""

    result: Any
    model: ScriptedModel

    @property
    def kinds(self) -> str:
        return kinds(self.result)

    def steps(self, kind: str) -> list[Step]:
        return steps(self.result, kind)

    @property
    def asked_for_scores(self) -> list[Request]:
        return [each for each in self.model.requests if "\nNew parts, " in each.prompt]

    @property
    def asked_for_action(self) -> list[Request]:
        return [each for each in self.model.requests if "The frames are what you have kept." in each.prompt]


def scores(*values: int, first: int = 0) -> dict[str, dict[str, Any]]:
    """A reply of the reward model: scores of segments, numbered from `first`."""
    return {
        str(number): {"why": f"seen in {number}", "score": value}
        for number, value in enumerate(values, first)
    }


def flat(value: int, first: int = 0, parts: int = 7) -> dict[str, dict[str, Any]]:
    """The same score for all parts."""
    return scores(*[value] * parts, first=first)


def explore(
    lines: Sequence[Line | ModelReply], *, frames: int = 16, asked: Any = None, **settings: Any
) -> Ended:
    """Answer a question with a model of these lines that takes `frames` frames."""
    model = ScriptedModel(lines, frames=frames)
    agent = scripted("vca", {"llm": model}, **settings)
    return Ended(agent.run(asked if asked is not None else item(), context(SceneBackbone())), model)


def listed(request: Request) -> list[int]:
    """The open segments that a prompt lists."""
    part = request.prompt.partition("Parts to look into, with their scores:\n")[2]
    return [int(line.partition(":")[0]) for line in part.splitlines() if line[0].isdigit()]
