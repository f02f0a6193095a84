"""LVAgent on the minute of coloured scenes: scripted agents, a retriever that reads colours, and a library of
models that are right and wrong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.fakes import ColourBackbone
from tests.support.method_world import context, item
from tests.support.reason_world import SceneBackbone, SceneIndex
from tests.support.scripted_model import Line, ScriptedModel
from videopro.backbones import Backbone, ChoiceRequest
from videopro.benchmarks import Item
from videopro.cli import build_settings
from videopro.methods.agents import AgentModel, Prepared, Scene
from videopro.methods.lvagent import LvAgentMethod
from videopro.question import Answer
from videopro.traces import Result, Step
from videopro.video import Frame

NAMES = ("one", "two", "three", "four")
"""The agents, as the settings name them."""
BUDGET = 12
"""Frames that the run's backbone takes."""


class SceneMethod(LvAgentMethod):
    """LVAgent with given models, and the six scenes as its chunks."""

    def __init__(self, models: Mapping[str, AgentModel], **settings: Any) -> None:
        if "team" not in settings:
            settings["agents"] = list(models)
        super().__init__(build_settings(LvAgentMethod.Settings, settings, "method lvagent"))
        self._models = dict(models)

    def models(self, backbone: Backbone) -> dict[str, AgentModel]:
        return self._models

    def prepare(self, scene: Scene) -> Prepared:
        return Prepared((SceneIndex(), BUDGET), self._selected())


def agents(*scripts: Sequence[Line]) -> dict[str, ScriptedModel]:
    """A scripted agent for each script."""
    return {name: ScriptedModel(lines) for name, lines in zip(NAMES, scripts, strict=False)}


def discuss(models: Mapping[str, AgentModel], asked: Item | None = None, **settings: Any) -> Result:
    """The result of the question about the red place."""
    method = SceneMethod(models, **settings)
    return method.run(asked if asked is not None else item(), context(SceneBackbone()))


def kinds(result: Result) -> list[tuple[int, str, str]]:
    """(round, kind, agent) of each step."""
    return [(step.round, step.kind, step.model) for step in result.steps]


def steps(result: Result, kind: str) -> list[Step]:
    return [step for step in result.steps if step.kind == kind]


class LibraryBackbone(ColourBackbone):
    """Sees the colour, and takes the next option instead for questions that hold one of its marks."""

    MARKS: Mapping[str, tuple[str, ...]] = {"good": (), "fair": ("(1)",), "poor": ("(0)", "(1)")}

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        answer = super().choose(request, frames)
        if not any(mark in request.question.text for mark in self.MARKS[self.name]):
            return answer
        letters = request.question.letters
        assert answer.letter is not None
        wrong = letters[(letters.index(answer.letter) + 1) % len(letters)]
        return Answer(wrong, 0.9, {}, wrong, answer.tokens_in, answer.tokens_out)


def load_library(model: str, **settings: Any) -> Backbone:
    """Stands for `videopro.backbones.load_backbone`."""
    return LibraryBackbone(model, **settings)
