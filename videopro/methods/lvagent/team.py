"""The team file: which agents answer, chosen by pseudo-labels (`videopro.select_agents` writes it)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from videopro.errors import ConfigError
from videopro.storage import read_object
from videopro.traces import Cost, Preparation


class TeamCost(BaseModel):
    """What the selection cost."""

    model_config = ConfigDict(extra="forbid")
    seconds: float = 0.0
    frames: float = 0.0
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0


class Member(BaseModel):
    """An agent of the library, and how often it agreed with the majority."""

    model_config = ConfigDict(extra="forbid")
    model: str
    agreement: float = Field(ge=0, le=1)


class TeamFile(BaseModel):
    """A selection. No gold answer is in it, and none was read for it."""

    model_config = ConfigDict(extra="forbid")
    benchmark: str
    domain: str = ""
    """The group of the benchmark that it is for; empty: all of it."""
    questions: int
    """How many unlabelled questions the agents were compared on."""
    agents: list[str]
    library: list[Member]
    cost: TeamCost = TeamCost()


@dataclass(frozen=True)
class Team:
    """The agents of a run."""

    agents: tuple[str, ...]
    selection: Preparation | None = None


def read_team(path: Path) -> Team:
    """The team in a file. Raises ConfigError."""
    try:
        content = read_object(path.read_bytes(), str(path), ConfigError)
        found = TeamFile.model_validate(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give a team file") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{path}: is not a team file of videopro.select_agents ({place}: {first['msg']})"
        ) from error
    cost = found.cost
    spent = Cost(cost.seconds, {}, cost.frames, cost.calls, cost.tokens_in, cost.tokens_out)
    key = f"{found.benchmark}/{found.domain or 'all'}/{len(found.library)} agents"
    return Team(tuple(found.agents), Preparation("selection", key, spent))
