"""The method `lvagent`."""

from __future__ import annotations

from typing import Any

from videopro.errors import ConfigError
from videopro.methods.agents import (
    AgentMethod,
    AgentRun,
    Prepared,
    Scene,
    Session,
    prepare_index,
    public_role,
)
from videopro.methods.lvagent.agent import LvAgentRun
from videopro.methods.lvagent.settings import LvAgentSettings, check_agents
from videopro.methods.lvagent.team import Team, read_team
from videopro.modules import ModuleModels, ModuleSettings, is_pocket


class LvAgentMethod(AgentMethod):
    """LVAgent: several agents perceive, answer, and discuss where they disagree."""

    name = "lvagent"
    Settings = LvAgentSettings
    settings: LvAgentSettings

    def __init__(self, settings: LvAgentSettings) -> None:
        self._team = Team(settings.agents) if settings.team is None else read_team(settings.team)
        check_agents(self._team.agents)
        super().__init__(settings)
        self.seeing_role = next(iter(self.role_names()))
        self._encoders: ModuleModels | None = None

    def role_names(self) -> dict[str, str]:
        return {public_role(name): name for name in self._team.agents}

    def identity(self) -> dict[str, Any]:
        facts = super().identity()
        # The roles are their own names, and the team is what its file says.
        facts = {key: value for key, value in facts.items() if key not in self.role_names()}
        del facts["team"]
        return {**facts, "agents": list(self.role_names())}

    def prepare(self, scene: Scene) -> Prepared:
        backbone = scene.context.backbone.inner
        if self._encoders is None:
            chosen = ModuleSettings(encoder=self.settings.encoder)
            self._encoders = ModuleModels(chosen, pocket=is_pocket(backbone))
        encoder = self._encoders.encoder()
        if encoder is None:
            raise ConfigError("lvagent: chunks are found by an encoder; leave out encoder=none, or name one")
        video = scene.context.video
        index, made = prepare_index(video, encoder, clip_seconds=video.duration / self.settings.chunks)
        selected = () if self._team.selection is None else (self._team.selection,)
        return Prepared(index, (made, *selected))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        return LvAgentRun(session, prepared, self.settings)
