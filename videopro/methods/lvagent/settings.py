"""The settings of LVAgent, with the values of the paper's supplement and figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from videopro.cli import option
from videopro.errors import ConfigError
from videopro.methods.agents import ROLE_HELP, AgentSettings, public_role

MOST_AGENTS = 4


@dataclass(frozen=True)
class LvAgentSettings(AgentSettings):
    """Settings of LVAgent. With preset "equal", `frames` is the number of frames that the run's backbone
    takes; a glance stays as short as it is."""

    agents: tuple[str, ...] = option((), f"2 to {MOST_AGENTS} different models: {ROLE_HELP}", answers=True)
    team: Path | None = option(None, "team file of videopro.select_agents, instead of agents", answers=True)
    frames: int = option(16, "frames of the second look, for the answer", client="less", answers=True)
    chunks: int = option(6, "equal parts of the video for retrieval", client="less", answers=True)
    threshold: float = option(
        0.8, "cosine similarity above which a chunk is used; if none is, the best", answers=True
    )
    max_rounds: int = option(3, "maximum rounds of discussion", client="less", answers=True)
    encoder: str = option(
        "auto", "encoder of the chunks, such as asp-clip:FOLDER (see method videopro)", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("frames", "chunks", "max_rounds"):
            if getattr(self, name) < 1:
                raise ConfigError(f"lvagent: {name} is {getattr(self, name)}; it must be at least 1")
        if bool(self.agents) == (self.team is not None):
            both = ", not both" if self.agents else ""
            raise ConfigError(
                f"lvagent: name the agents (agents=[A, B, C], 2 to {MOST_AGENTS}) or a team file of "
                f"videopro.select_agents (team=FILE){both}"
            )
        if self.agents:
            check_agents(self.agents)


def check_agents(agents: tuple[str, ...]) -> None:
    """Raise ConfigError unless these are two to four different models: equal ones never disagree."""
    if not 2 <= len(agents) <= MOST_AGENTS:
        raise ConfigError(f"lvagent: {len(agents)} agents; name 2 to {MOST_AGENTS}")
    # A server's address does not make another model.
    names = [public_role(name) for name in agents]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"lvagent: {twice!r} is named twice; equal agents never disagree: name others")
