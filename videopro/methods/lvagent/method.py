"""The method `lvagent`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from videopro.errors import ConfigError
from videopro.methods.agents import (
    AgentMethod,
    AgentRun,
    Equipment,
    Prepared,
    Scene,
    Session,
    public_role,
)
from videopro.methods.lvagent.agent import LvAgentRun, Scenery
from videopro.methods.lvagent.settings import LvAgentSettings, check_agents
from videopro.methods.lvagent.team import Team, read_team
from videopro.modules.search import prepare_index


class LvAgentMethod(AgentMethod):
    """LVAgent: several agents perceive, answer, and discuss where they disagree."""

    name = "lvagent"
    Settings = LvAgentSettings
    settings: LvAgentSettings

    def __init__(self, settings: LvAgentSettings) -> None:
        self._team = Team(settings.agents) if settings.team is None else read_team(settings.team)
        check_agents(self._team.agents)
        super().__init__(settings)
        self._is_checked = False

    def equipment(self) -> Equipment:
        roles = {public_role(name): name for name in self._team.agents}
        return Equipment(roles, seeing=next(iter(roles)), encoders={"encoder": self.settings.encoder})

    def identity(self) -> dict[str, Any]:
        # The team is what its file says, wherever that lies.
        identity = super().identity() | {"agents": list(self.equipment().roles)}
        del identity["team"]
        chosen = self._team.selection
        return identity if chosen is None else {**identity, "selection": chosen.key}

    def prepare(self, scene: Scene) -> Prepared:
        """Index the chunks. The index is kept on the disk, with what making it cost. Raises ConfigError for
        two agents with the same weights."""
        if not self._is_checked:
            check_weights({name: model.identity() for name, model in scene.models.items()})
            self._is_checked = True
        encoder = self.encoder(scene, self.settings.encoder, "chunks are found by an encoder")
        video = scene.context.video
        index, indexing = prepare_index(video, encoder, clip_seconds=video.duration / self.settings.chunks)
        selected = () if self._team.selection is None else (self._team.selection,)
        return Prepared(Scenery(index, scene.context.backbone.inner.frames), (indexing, *selected))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        return LvAgentRun(session, prepared, self.settings)


# What an identity says besides the weights: no reason for two agents to be two.
_SETTINGS = ("name", "dtype", "attention", "frames", "pixels", "video", "jpeg_quality", "extra_body")


def check_weights(identities: Mapping[str, Mapping[str, object]]) -> None:
    """Raise ConfigError if two agents, by name, have the same weights, as "self" and the name of the run's
    backbone: they never disagree. Of a served model, only what its server tells is known."""
    seen: dict[str, str] = {}
    for name, identity in identities.items():
        # A local model is told by the contents of its files, wherever they are.
        ignored = {*_SETTINGS, *(("model",) if identity.get("kind") == "qwen" else ())}
        weights = json.dumps(
            {key: value for key, value in identity.items() if key not in ignored}, sort_keys=True
        )
        if weights in seen:
            raise ConfigError(
                f"lvagent: {seen[weights]!r} and {name!r} have the same weights; equal agents never "
                "disagree: name others"
            )
        seen[weights] = name
