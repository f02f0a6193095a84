"""LVAgent on the minute of coloured scenes: scripted agents, a retriever that reads colours, and a library of
models that are right and wrong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.method_world import context, item
from tests.support.scenes import SceneBackbone, SceneIndex
from tests.support.scripted_model import Line, ScriptedModel, scripted
from videopro.benchmarks import Item
from videopro.methods.agents import AgentModel, Prepared

NAMES = ("one", "two", "three", "four")
"""The agents, as the settings name them."""
BUDGET = 12
"""Frames that the run's backbone takes."""


def team_of(models: Mapping[str, AgentModel], **settings: Any) -> Any:
    """LVAgent with given models, and the six scenes as its chunks."""
    named = {} if "team" in settings else {"agents": list(models)}
    agent = scripted("lvagent", models, **named, **settings)
    agent.prepare = lambda scene: Prepared((SceneIndex(), BUDGET), agent._selected())
    return agent


def agents(*scripts: Sequence[Line]) -> dict[str, ScriptedModel]:
    """A scripted agent for each script."""
    return {name: ScriptedModel(lines) for name, lines in zip(NAMES, scripts, strict=False)}


def discuss(models: Mapping[str, AgentModel], asked: Item | None = None, **settings: Any) -> Any:
    """The result of the question about the red place."""
    return team_of(models, **settings).run(asked if asked is not None else item(), context(SceneBackbone()))
